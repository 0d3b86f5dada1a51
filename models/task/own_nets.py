"""Networks of others as target networks: how one is built, drawn and what is asked of it.

To apply a network to weights from outside, torch puts them into it for the time of the call, so
that two threads cannot use one at a time: each has its own copy of the skeleton.

A net is made by a class or function of ``(input_shape, n_out)``. It is built once for its structure
and again whenever fresh weights are drawn, so that they are drawn as its author draws them.
"""

import pickle
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from latecomer.models.task.clients import TOKENS, random_inputs
from latecomer.models.task.state import Params

DRAWING = threading.RLock()
"""Held by who seeds torch's own generator and draws from it."""
_OWN = threading.local()


def of_this_thread(net: nn.Module) -> nn.Module:
    """Return the network for this thread: itself in the main one, elsewhere a copy.

    The constants that it holds, of a frozen body for instance, are not copied.
    """
    if threading.current_thread() is threading.main_thread():
        return net
    copies = _OWN.__dict__.setdefault("copies", WeakKeyDictionary())
    if net not in copies:
        copies[net] = _copy(net)
    copy: nn.Module = copies[net]
    return copy


@lru_cache(maxsize=8)
def can_be_copied(net: nn.Module) -> bool:
    """Tell whether several threads may use a network: one that holds a lock or file cannot be."""
    try:
        _copy(net)
    except Exception:
        return False
    return True


def _copy(net: nn.Module) -> nn.Module:
    held = [value for module in net.modules() for value in vars(module).values()]
    return deepcopy(net, {id(value): value for value in held if isinstance(value, Tensor)})


Make = Callable[..., Any]
"""``(input_shape, n_out) -> module``: a class or a function."""
_SAMPLES = 3
_TRIAL_SEED = 20_011_229
"""Not 0, which nets that set torch's seed themselves often take: it would pass unnoticed."""
_LARGE = 1000
"""So many times its first weights are far beyond what a net allows that holds them small."""
ANY_LAYOUT = "_latecomer_any_layout"
"""Attribute of a skeleton: whether its images and filters may lie channels-last."""
VIEWS_COPIED = "_latecomer_views_copied"
"""Attribute of a skeleton: whether they may if views that this forbids are copies instead."""

# Torch's modules draw from one generator for the whole process: a client's draws would depend on
# who trained before it, and a resumed training would differ from an uninterrupted one.
_DRAWING = (nn.modules.dropout._DropoutNd, nn.RReLU)


class UnfitError(ValueError):
    """A network of one's own that is no target network; the message is one line."""


@contextmanager
def _seeded(seed: int, dtype: torch.dtype) -> Iterator[None]:
    """Let torch draw from ``seed`` in ``dtype``; what it drew from before is left as it was."""
    with DRAWING, torch.random.fork_rng(devices=[]):
        before = torch.get_default_dtype()
        torch.default_generator.manual_seed(seed)
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def build(make: Make, *asked: Any, seed: int, dtype: Any, kind: str = "target") -> Any:
    """Build a net from what is ``asked`` of it, with weights drawn from ``seed`` alone.

    If that fails, a ``ValueError`` says so in one line.
    """
    try:
        with _seeded(seed, dtype):
            made = make(*asked)
            if torch.initial_seed() != seed:
                raise UnfitError(
                    f"{kind} must leave torch's seed alone, or it starts from the same weights "
                    f"whatever a study's seed, got torch.manual_seed({torch.initial_seed()})"
                )
    except UnfitError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{kind} cannot be built for inputs of shape {asked[0]} and {asked[-1]} outputs: "
            f"{said(error)}"
        ) from error
    if not isinstance(made, nn.Module):
        raise ValueError(f"{kind} must make a torch module, got {type(made).__name__}")
    _refuse_unreal(made, kind)  # of complex ones, `to` would keep the real part
    return made.to(dtype)


def _refuse_unreal(net: nn.Module, kind: str) -> None:
    for name, value in net.named_parameters():
        if not value.is_floating_point():
            raise ValueError(f"{kind} must have real parameters, got {name} of {value.dtype}")


def _refuse_hidden(net: nn.Module, kind: str) -> None:
    """Refuse weights that torch does not see: they would be drawn and never trained."""
    known = {id(module) for module in net.modules()}
    for place, module in net.named_modules():
        for name, value in vars(module).items():
            called = f"{place}.{name}".lstrip(".")
            # What weight normalisation computes from parameters is no leaf.
            if isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
                raise ValueError(f"{kind} must hold its weights as nn.Parameter, got {called}")
            table = [*value.values()] if isinstance(value, dict) else value
            for one in table if isinstance(table, list | tuple) else ():
                unseen = isinstance(one, nn.Module) and id(one) not in known
                if unseen and next(one.parameters(), None) is not None:
                    raise ValueError(
                        f"{kind} must hold its modules in nn.ModuleList or nn.ModuleDict, got "
                        f"{type(one).__name__} in the {type(value).__name__} {called}"
                    )


def refuse_tied(net: nn.Module, kind: str = "target") -> None:
    """Refuse a net with one parameter under two names: weights come by name, and would differ.

    One is also what lies in the same memory, ``a.weight.data = b.weight.data``.
    """
    names: dict[int, str] = {}
    for name, value in net.named_parameters(remove_duplicate=False):
        lies = not (value.is_meta or is_lazy(value)) and value.numel() > 0
        if (first := names.setdefault(value.data_ptr() if lies else id(value), name)) != name:
            raise UnfitError(
                f"{kind} must have every parameter under one name, got {name}, which is {first}"
            )


def outline(make: Make, *asked: Any) -> nn.Module | None:
    """Return a net's structure without drawing its weights; None if it cannot be made that way.

    >>> net = outline(nn.Linear, 10**5, 10**5)
    >>> sum(value.numel() for value in net.parameters())
    10000100000
    """
    try:
        with torch.device("meta"):
            made = make(*asked)
    except (Exception, SystemExit):  # building it in earnest says what is wrong
        return None
    return made if isinstance(made, nn.Module) else None


def drawn(make: Make, *asked: Any, seed: int, dtype: Any) -> Params:
    """Return the weights of a net that is built anew, drawn from ``seed`` alone."""
    net = build(make, *asked, seed=seed, dtype=dtype)
    return {key: value.detach().clone() for key, value in net.named_parameters()}


def said(error: BaseException) -> str:
    """Word an exception of somebody's code in one line.

    >>> said(ValueError("too  wide"))
    'ValueError: too wide'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


def trial_inputs(input_shape: tuple[int, ...], vocabulary: int, dtype: torch.dtype) -> Tensor:
    """Return the samples that a net is tried on, as it is given them."""
    draw = torch.Generator().manual_seed(0)
    x = random_inputs(_SAMPLES, input_shape, vocabulary, dtype=dtype, draw=draw)
    if vocabulary:
        x[-1, -1] = 0  # which often fills short texts up
    return x.long() if vocabulary else x


def skeleton(
    make: Make, input_shape: tuple[int, ...], n_out: int, dtype: torch.dtype, vocabulary: int = 0
) -> tuple[nn.Module, str]:
    """Build a net for its structure, and hold it to what a target network must be.

    Everything is tried on random inputs of the shape that clients have, before anything is trained.
    With a ``vocabulary``, inputs are tokens below it. Returned are the net on the ``meta`` device,
    and why clients cannot train side by side; empty: they can.

    Raises
    ------
    ValueError
        With one line: it cannot be built, has buffers, no parameters or such as are not to be
        trained, draws numbers, changes what it is given, keeps state, mixes the samples of a
        batch, has constants of its own every time it is built, or its output is no finite
        ``[B, n_out]``, or probabilities.
    """
    x = trial_inputs(input_shape, vocabulary, dtype)
    net, params = tried(make, input_shape, n_out, inputs=(x,), dtype=dtype, returns="logits")
    with torch.no_grad():
        _refuse_probabilities(functional_call(net, params, (x,)))
    fits = _takes_any_layout(net, params, x, functional_call)
    setattr(net, ANY_LAYOUT, fits)
    setattr(net, VIEWS_COPIED, not fits and _takes_any_layout(net, params, x, call_copying_views))
    setattr(net, TOKENS, vocabulary > 0)
    return net, _not_side_by_side(net, params, x)


def _refuse_probabilities(made: Tensor) -> None:
    """Refuse outputs of a softmax: the loss takes another, whose slopes would be far too small."""
    sums = made.sum(dim=1)
    if bool((made >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), rtol=1e-3):
        raise ValueError(
            "target must return logits, as they are before a softmax, got probabilities that add "
            "up to 1 for every sample: leave the softmax out of forward"
        )


def tried(
    make: Make,
    *asked: Any,
    inputs: tuple[Tensor, ...],
    dtype: torch.dtype,
    returns: str,
    kind: str = "target",
) -> tuple[nn.Module, Params]:
    """Build a net, and apply it to ``inputs`` in every way that may show it unfit, see `skeleton`.

    ``kind`` and ``returns`` name the net and its output in messages. Returned are the net on the
    ``meta`` device, and weights that it drew.
    """
    net = build(make, *asked, seed=_TRIAL_SEED, dtype=dtype, kind=kind)
    refuse_unfit(net, kind)
    params = {key: value.detach().clone() for key, value in net.named_parameters()}
    again = build(make, *asked, seed=_TRIAL_SEED, dtype=dtype, kind=kind)
    _check_draws(params, dict(again.named_parameters()), kind)
    trial = _Trial(kind, net.to("meta"), params, inputs, asked[-1], returns)
    trial.check().check_constants(again.to("meta"))
    return trial.net, params


def held_to(net: nn.Module, input_shape: tuple[int, ...], n_out: int, vocabulary: int = 0) -> str:
    """Hold a net that is there, with weights of its own, to what `skeleton` asks of one.

    It is left as it was. Returned is why clients cannot train side by side; empty: they can.
    """
    try:
        net = deepcopy(net)
    except Exception as error:
        raise ValueError(
            "target must be a module that can be copied, or a class or function that makes it, got "
            f"{type(net).__name__}: {said(error)}"
        ) from error
    params = {key: value.detach().clone() for key, value in net.named_parameters()}
    x = trial_inputs(input_shape, vocabulary, next(iter(params.values())).dtype)
    _Trial("target", net, params, (x,), n_out, "logits").check()
    with torch.no_grad():
        _refuse_probabilities(functional_call(net, params, (x,)))
    return _not_side_by_side(net, params, x)


def refuse_unfit(net: nn.Module, kind: str = "target") -> None:
    """Refuse nets with buffers, those that draw, and tied, absent or untrained parameters."""
    buffers = [name for name, _ in net.named_buffers()]
    if buffers:
        raise ValueError(
            f"{kind} must have no buffers, got {buffers[0]}: running statistics are no weights, "
            "change in the forward pass and have no place beside other clients'; take nn.GroupNorm "
            "for batch normalisation, and make constants in forward"
        )
    refuse_tied(net, kind)
    _refuse_hidden(net, kind)
    _refuse_unreal(net, kind)
    named = dict(net.named_parameters())
    if not named:
        raise ValueError(
            f"{kind} must have parameters to train, got {type(net).__name__} with none"
        )
    for name, value in named.items():
        if is_lazy(value):
            raise ValueError(f"{kind} must know its shapes when it is built, got lazy {name}")
        if not value.requires_grad:
            raise ValueError(
                f"{kind} must train all its parameters, got {name} with requires_grad=False"
                + ("; model.frozen names those that are loaded and held" * (kind == "target"))
            )
    for name, module in net.named_modules():
        if isinstance(module, _DRAWING) and module.training and getattr(module, "p", 1) > 0:
            raise ValueError(
                f"{kind} must draw nothing by itself: take dropout out or call eval() on it, got "
                f"{type(module).__name__} in module {name!r}"
            )


def _check_draws(params: Params, again: Params, kind: str) -> None:
    for name, value in params.items():
        if not bool(value.isfinite().all()):
            raise ValueError(
                f"{kind} must start from finite parameters, got {name} with NaN or inf"
            )
    for name in {**params, **again}:
        first, second = params.get(name), again.get(name)
        if first is None or second is None or not torch.equal(first, second):
            raise ValueError(
                f"{kind} must draw its parameters from torch's generator alone, for a run to be "
                f"repeatable, got another {name} the second time it was built from one seed"
            )


@dataclass(frozen=True, eq=False)
class _Trial:
    """A net that is applied to inputs to see what it does."""

    kind: str
    net: nn.Module
    params: Params
    inputs: tuple[Tensor, ...]
    n_out: int
    returns: str

    def apply(self, params: Params, inputs: tuple[Tensor, ...]) -> Tensor:
        """Apply the net; refuse what is no ``[B, n_out]`` of finite numbers."""
        try:
            made = functional_call(self.net, params, inputs)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{self.kind} fails on {self._told(inputs)}: {said(error)}") from error
        x, weights = inputs[0], next(iter(params.values())).dtype
        legal = f"{self.kind} must return {self.returns} [B, {self.n_out}] for inputs [B, ...]"
        if not isinstance(made, Tensor):
            raise ValueError(f"{legal}, got {type(made).__name__}")
        if made.shape != (len(x), self.n_out) or made.dtype != weights:
            other = "" if made.dtype == weights else f" in {made.dtype} for {weights}"
            raise ValueError(f"{legal}, got {list(made.shape)} for {list(x.shape)}{other}")
        if made.device != x.device:
            raise ValueError(f"{legal} on their device, {x.device}, got {made.device}")
        if not bool(made.isfinite().all()):
            raise ValueError(f"{self.kind} must start with finite outputs, got NaN or inf")
        return made

    def _told(self, inputs: tuple[Tensor, ...]) -> str:
        """Say what a net was tried on."""
        x, shape = inputs[0], f"inputs of shape {tuple(inputs[0].shape)}"
        if not x.is_floating_point():
            return f"{shape}, tokens from 0 to {int(x.max())}"
        embeds = any(isinstance(one, nn.Embedding | nn.EmbeddingBag) for one in self.net.modules())
        return f"{shape}, numbers (data with tokens: true hold tokens)" if embeds else shape

    def check(self) -> "_Trial":
        """Refuse an unfit net; return the trial at other weights.

        Weights that start at 0, of a head say, hide what stands before them.
        """
        self.check_slopes()
        moved = self.moved()
        for trial in (self, moved):
            trial.check_purity()
            trial.check_samples_apart()
        return moved

    def check_purity(self) -> None:
        """Refuse a net whose forward pass changes anything, or depends on anything else."""
        self._check_weights_stay()
        given = {key: value.clone() for key, value in self.params.items()}
        seen = tuple(one.clone() for one in self.inputs)
        with torch.no_grad():
            with DRAWING:
                before = _generators()
                first = self.apply(given, seen)
                after = _generators()
            for name, state in before.items():
                if after[name] != state:
                    raise ValueError(
                        f"{self.kind} must draw no random numbers in forward, got some of {name}: "
                        "take dropout and the like out"
                    )
            if not all(torch.equal(*pair) for pair in zip(seen, self.inputs, strict=True)):
                raise ValueError(f"{self.kind} must not change its inputs in place")
            second = self.apply(given, seen)
        if not torch.equal(first, second):
            raise ValueError(
                f"{self.kind} must give the same outputs for the same inputs, got others the "
                "second time: it keeps state"
            )
        if {key: value.shape for key, value in self.net.named_parameters()} != {
            key: value.shape for key, value in self.params.items()
        } or [*self.net.named_buffers()]:
            raise ValueError(f"{self.kind} must not register parameters or buffers in forward")

    def _check_weights_stay(self) -> None:
        """Refuse a net that changes weights, be it only large ones, as a limit on norms does."""
        for scale in (1, _LARGE):
            asked = {key: scale * value for key, value in self.params.items()}
            given = {key: value.clone() for key, value in asked.items()}
            seen = tuple(one.clone() for one in self.inputs)
            # What fails on its own weights is told by `apply`.
            with torch.no_grad(), suppress(Exception, SystemExit):
                functional_call(self.net, given, seen)
            for key, value in given.items():
                if not torch.equal(value, asked[key]):
                    large = "" if scale == 1 else f" where its weights are {scale} times as large"
                    raise ValueError(
                        f"{self.kind} must not change its parameters in forward, got {key}{large}"
                    )

    def moved(self) -> "_Trial":
        """Return the trial at weights a little off, itself where they give no finite outputs."""
        draw = torch.Generator().manual_seed(0)
        moved = {
            key: value + 0.1 * torch.randn(value.shape, generator=draw).to(value) / _fan_in(value)
            for key, value in self.params.items()
        }
        other = replace(self, params=moved)
        try:
            with torch.no_grad():
                other.apply(moved, self.inputs)
        except ValueError:
            return self
        return other

    def check_constants(self, again: nn.Module) -> None:
        """Refuse a net that computes something else the second time it is built.

        What a constructor draws and keeps as a constant would differ from process to process.
        """
        with torch.no_grad():
            first = self.apply(self.params, self.inputs)
            second = replace(self, net=again).apply(self.params, self.inputs)
        if not _alike(first, second, 1e-5):
            raise ValueError(
                f"{self.kind} must draw its constants from torch's generator alone, for a run to "
                "be repeatable, got other outputs of the same weights the second time it was built"
            )

    def check_samples_apart(self) -> None:
        """Refuse a net whose output for a sample depends on the others of the batch."""
        one_by_one = zip(*(torch.split(one, 1) for one in self.inputs), strict=True)
        with torch.no_grad():
            together = self.apply(self.params, self.inputs)
            alone = torch.cat([self.apply(self.params, one) for one in one_by_one])
        if not _alike(together, alone):
            raise ValueError(
                f"{self.kind} must treat every sample by itself, got outputs that depend on the "
                "other samples of the batch, as those of batch normalisation do; take nn.GroupNorm"
            )

    def check_slopes(self) -> None:
        """Refuse a net without a finite gradient for each of its parameters."""
        leaves = {key: value.clone().requires_grad_() for key, value in self.params.items()}
        with torch.enable_grad():
            made = self.apply(leaves, self.inputs)
            self._check_leaves(made, leaves)
            loss = F.cross_entropy(made, torch.arange(len(made)) % made.shape[1])
            try:
                slopes = torch.autograd.grad(loss, [*leaves.values()], allow_unused=True)
            except Exception as error:
                raise ValueError(f"{self.kind} cannot be differentiated: {said(error)}") from error
        for name, slope in zip(leaves, slopes, strict=True):
            if slope is None:
                raise ValueError(
                    f"{self.kind} must use all its parameters, got {name} without effect"
                )
            if slope.layout != torch.strided:
                raise ValueError(
                    f"{self.kind} must have dense gradients, got a sparse one of {name}: leave "
                    "sparse=True out of embeddings"
                )
            if not bool(slope.isfinite().all()):
                raise ValueError(
                    f"{self.kind} must have finite gradients at the start, got {name} without"
                )

    def _check_leaves(self, made: Tensor, leaves: Params) -> None:
        """Refuse weights that are no parameters, wherever they are kept."""
        known = {id(value) for value in leaves.values()}
        left, met = [made.grad_fn], set[Any]()
        while left:
            node = left.pop()
            if node is None or node in met:
                continue
            met.add(node)
            left += [before for before, _ in node.next_functions]
            weight = getattr(node, "variable", None)  # of the nodes that leaves have
            if isinstance(weight, Tensor) and id(weight) not in known:
                raise ValueError(
                    f"{self.kind} must hold its weights as parameters, as nn.ParameterList and "
                    f"nn.ModuleList do, got one of shape {[*weight.shape]} that it trains and does "
                    "not list"
                )


def _generators() -> dict[str, bytes]:
    """Return where the generators stand that a whole process shares."""
    return {
        "torch": torch.default_generator.get_state().numpy().tobytes(),
        "numpy": pickle.dumps(np.random.get_state()),  # noqa: NPY002 (shared)
        "random": pickle.dumps(random.getstate()),
    }


def _fan_in(value: Tensor) -> float:
    """Return the root of how many numbers meet in one output of a layer with such weights."""
    return float(value[0].numel() ** 0.5) if value.dim() > 1 and value.numel() else 1.0


def _alike(one: Tensor, other: Tensor, rtol: float = 1e-2) -> bool:
    """Tell whether outputs differ by rounding alone."""
    atol = 0.01 * rtol * max(1.0, float(one.abs().max()))
    return torch.allclose(one, other, rtol=rtol, atol=atol)


class _CopyingViews(TorchFunctionMode):
    """``view`` to a shape does what ``reshape`` does, which copies where memory forbids a view."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        shaped = func is Tensor.view and not kwargs and not isinstance(args[1], torch.dtype)
        return (Tensor.reshape if shaped else func)(*args, **(kwargs or {}))


def call_copying_views(net: nn.Module, params: Params, inputs: tuple[Tensor, ...]) -> Tensor:
    """Apply a net whose feature maps lie channels-last, where plain views of them fail.

    The maps that are viewed as vectors are copied, not the images and filters.
    """
    with _CopyingViews():
        made: Tensor = functional_call(net, params, inputs)
    return made


def _takes_any_layout(net: nn.Module, params: Params, x: Tensor, call: Make) -> bool:
    """Tell whether a net works on images and filters that lie channels-last, as they do on a CPU.

    One that views its feature maps as vectors does not unless such views are copies.
    """
    if x.dim() != 4:
        return True
    images = x.to(memory_format=torch.channels_last)
    turned = {
        key: value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
        for key, value in params.items()
    }
    try:
        for table in (params, turned):
            leaves = {key: value.clone().requires_grad_() for key, value in table.items()}
            for inputs in (images, images[:1]):
                with torch.enable_grad():
                    made = call(net, leaves, (inputs,))
                    torch.autograd.grad(made.sum(), [*leaves.values()])
                with torch.no_grad():
                    again = call(net, table, (inputs.contiguous(),))
                if not torch.allclose(made, again, rtol=1e-2, atol=1e-4):
                    return False
    except Exception:  # whatever the net says of a layout that it does not expect
        return False
    return True


def _not_side_by_side(net: nn.Module, params: Mapping[str, Tensor], x: Tensor) -> str:
    """Say why a net cannot be applied over the client axis; empty if it can."""
    # Torch says so for every operation that it maps one client after another; the result stands.
    warnings.filterwarnings("ignore", message="There is a performance drop")
    if any(isinstance(one, nn.Embedding) and one.padding_idx is not None for one in net.modules()):
        return "torch.func.vmap trains the embedding of padding_idx, of all clients but the first"
    two = {key: torch.stack([value, 0.5 * value]) for key, value in params.items()}
    leaves = {key: value.requires_grad_() for key, value in two.items()}

    def applied(one: Params, inputs: Tensor) -> Tensor:
        made: Tensor = functional_call(net, one, (inputs,))
        return made

    try:
        with torch.enable_grad():
            made = torch.func.vmap(applied)(leaves, torch.stack([x, x]))
            slopes = torch.autograd.grad(made.sin().sum(), [*leaves.values()])
    except Exception as error:
        return said(error)
    for place in range(2):
        own = {key: value[place].detach().requires_grad_() for key, value in two.items()}
        with torch.enable_grad():
            alone = applied(own, x)
            each = torch.autograd.grad(alone.sin().sum(), [*own.values()])
        if not torch.allclose(made[place], alone, rtol=1e-2, atol=1e-4):
            return "torch.func.vmap gives other outputs"
        pairs = zip(each, (slope[place] for slope in slopes), strict=True)
        if not all(_alike(one.nan_to_num(), other.nan_to_num()) for one, other in pairs):
            return "torch.func.vmap gives other gradients"
    return ""


def head_of(net: nn.Module, n_out: int) -> str:
    """Return the name of the module that is a net's head.

    It is the one that the net names (``head = "fc"``) or calls ``head``, else the last linear layer
    with ``n_out`` outputs; empty if there is none.

    >>> head_of(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), 3)
    '2'
    """
    named = getattr(net, "head", None)
    if isinstance(named, str):
        return named
    if isinstance(named, nn.Module) and next(named.parameters(), None) is not None:
        return "head"
    linear = [
        name
        for name, module in net.named_modules()
        if name and isinstance(module, nn.Linear) and module.out_features == n_out
    ]
    return linear[-1] if linear else ""
