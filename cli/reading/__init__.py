"""How text that people write or export becomes values: YAML, tables, clients' ids, numbers.

Every door (study, plan, override, file, frame, mapping) reads through these modules, so that the
same text means the same wherever it comes in.
"""
