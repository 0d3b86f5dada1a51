"""What each kind of certificate says, in one sentence: the only place where that is worded."""
