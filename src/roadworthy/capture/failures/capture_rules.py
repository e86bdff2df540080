"""What torch.export raises, and what to change: the first rule that fits is used."""

from __future__ import annotations

from roadworthy.capture.failures.rules import Rule
from roadworthy.errors import BatchSpecialised

READ_SIZES = (
    "write obs.shape[0] in place of constants such as view(3, -1) or zeros(3, …), "
    "or export for one batch size: rw.export(…, batch=1)"
)
_VALUE = r"data-dependent"
_GUARD = r"Not all values of (?P<size>\w+) .* satisfy the generated guard (?P<guard>[^\n]+)"
_NUMPY = r"\.numpy\(\)|data pointer"
# What is written through .data no graph can follow.
WRITES_DATA = r"\.data(\[.*\])?(\.\w+_\(|\s*[-+*/@]?=(?!=))"
_UNTRACEABLE = r"data is not allocated yet"
_BRANCHES = "the code branches on the value of a tensor; a graph would freeze one side"
_NUMBER = "the value of a tensor is read as a Python number; a graph would freeze it"
_LEAVES = "the code leaves PyTorch for NumPy; a graph would freeze what comes back"
_SIZES = "the code does something else for some sizes of '$size': $guard"
_NO_BRANCH = (
    "do the same for every size; or fix the size: rw.export(…, batch=1), or leave the axis out of "
    "dynamic="
)

CAPTURE_RULES = (
    Rule(
        text=r"specialized it to be a constant \((?P<rows>\d+)\)",
        code="RW101",
        what="the module works for one batch size only: the code fixes the number of rows to $rows",
        hint=READ_SIZES,
        kind=BatchSpecialised,
    ),
    Rule(
        text=_GUARD,
        line=r"\.tolist\(",
        code="RW103",
        what="the values of a tensor are read as a Python list; a graph would freeze them",
        hint="drop .tolist() and work on all rows at once: self.net(obs) * gains[:, None] "
        "instead of [self.net(o) * g for o, g in zip(obs, gains)]",
    ),
    Rule(
        text=_GUARD,
        line=r"\bfor \w+(, \w+)* in (enumerate\(|zip\()?\w+[,):\]]",
        code="RW101",
        what="a Python loop goes over the rows of a tensor: the graph would hold one copy of "
        "the loop for each row of the example",
        hint="drop the loop: layers and operators take all rows at once, self.net(obs)",
        kind=BatchSpecialised,
    ),
    Rule(
        text=_GUARD,
        line=r"^(if|elif|while|assert)\b.*(\.shape|\.size\(|len\()|"
        r"\bif\b.*(\.shape|\.size\(|len\().* else ",
        code="RW101",
        what=_SIZES,
        hint=_NO_BRANCH,
        kind=BatchSpecialised,
    ),
    Rule(
        text=_GUARD,
        code="RW101",
        what=_SIZES,
        hint=_NO_BRANCH,
        kind=BatchSpecialised,
    ),
    Rule(
        text=_VALUE,
        line=r"\bdistributions\.|validate_args",
        code="RW103",
        what="a distribution checks the values of its parameters; a graph has no values yet",
        hint="pass validate_args=False to that distribution",
    ),
    Rule(
        text=_VALUE,
        line=r"^assert\b",
        code="RW103",
        what="an assertion reads the value of a tensor; a graph cannot stop half-way",
        hint="delete it, or check in training only: if self.training: assert …",
    ),
    Rule(
        text=_VALUE,
        line=r"^(if|elif|while)\b.*\b(isnan|isinf|isfinite)\(",
        code="RW103",
        what=_BRANCHES,
        hint="to check in training only: if self.training and …; to replace "
        "NaN on the robot too: torch.nan_to_num(x)",
    ),
    Rule(
        text=_VALUE,
        line=r"^while\b",
        code="RW103",
        what="a loop runs until the value of a tensor says stop; "
        "a graph would freeze the number of rounds",
        hint="loop a fixed number of times and leave finished rows as they are: "
        "for _ in range(n): x = torch.where(condition, update(x), x)",
    ),
    Rule(
        text=_VALUE,
        line=r"^(if|elif) (not )?(?P<flag>self(\.\w+)+):",
        code="RW103",
        what="$flag is a tensor and decides a branch; a graph would freeze one side",
        hint="if it never changes, make it a Python bool after loading: $flag = bool($flag); "
        "or rw.export(…, fix=True)",
    ),
    Rule(
        text=_VALUE,
        line=r"^(if|elif) (not )?(torch\.(any|all)\()?(?P<mask>\w+)(\.(any|all)\(\)|\)):",
        code="RW103",
        what=_BRANCHES,
        hint="choose row by row, without the if: x = torch.where($mask, a, b), "
        "which changes nothing where $mask is False",
    ),
    Rule(
        text=_VALUE,
        line=r"\bmath\.fabs\(",
        code="RW103",
        what=_NUMBER,
        hint="use torch.abs instead of math.fabs: it takes and returns tensors",
    ),
    Rule(
        text=_VALUE,
        line=r"\bmath\.(?P<op>sin|cos|tan|exp|sqrt|tanh|atan2|log|floor|ceil)\(",
        code="RW103",
        what=_NUMBER,
        hint="use torch.$op instead of math.$op: it takes and returns tensors",
    ),
    Rule(
        text=_VALUE,
        line=r"(?<![.\w])max\(",
        code="RW103",
        what=_NUMBER,
        hint="write x.clamp(min=1.0) instead of max(x.item(), 1.0)",
    ),
    Rule(
        text=_VALUE,
        line=r"(?<![.\w])min\(",
        code="RW103",
        what=_NUMBER,
        hint="write x.clamp(max=1.0) instead of min(x.item(), 1.0)",
    ),
    Rule(
        text=_VALUE,
        line=r"\.item\(|\.tolist\(|float\(|int\(|bool\(",
        code="RW103",
        what=_NUMBER,
        hint="stay with tensors: drop .item(), float(), int() and bool()",
    ),
    Rule(
        text=_VALUE,
        code="RW103",
        what=_BRANCHES,
        hint="compute both sides and choose: torch.where(condition, a, b)",
    ),
    Rule(
        text=rf"{_NUMPY}|deepcopy",
        line=r"deepcopy\(",
        code="RW103",
        what="a tensor that is being traced cannot be deep-copied",
        hint="write x.clone() instead of copy.deepcopy(x)",
    ),
    Rule(
        text=_NUMPY,
        line=r"\bnp\.(?P<op>clip|tanh|sin|cos|exp|sqrt|abs|concatenate|stack|where|arctan2|"
        r"square|sign|maximum|minimum)\(",
        code="RW103",
        what=_LEAVES,
        hint="use torch.$op instead of np.$op, without .numpy() or from_numpy()",
    ),
    Rule(
        text=_NUMPY,
        code="RW103",
        what=_LEAVES,
        hint="write the line with torch operations, without NumPy",
    ),
    Rule(
        text=_UNTRACEABLE,
        line=r"torch\.(as_)?tensor\(|torch\.(Float|Long)?Tensor\(",
        code="RW117",
        what="a new tensor is made from computed values; "
        "the graph would hold the numbers of the example",
        hint="write torch.stack([a, b], dim=-1) instead of torch.tensor([a, b]); "
        "numbers go in as torch.full_like(a, 1.0)",
    ),
    Rule(
        text=r"no fake impl registered for <CustomOpDef\((?P<op>[\w:.]+)\)>",
        code="RW191",
        what="the custom operator $op does not say what shape it returns",
        hint="beside its definition: @op.register_fake, "
        "a function that returns torch.empty_like(x)",
    ),
    Rule(
        text=r"fake tensor in the exported program constant's list",
        line=WRITES_DATA,
        code="RW118",
        what="forward changes a tensor through .data, which a captured graph cannot follow",
        hint="do it once, before the export; or compute the new weight without storing it: "
        "F.linear(x, self.net.weight.clamp(-1, 1), self.net.bias); state that is memory: "
        "self.steps = self.steps + 1",
    ),
    Rule(
        text=r"fake tensor in the exported program constant's list",
        code="RW104",
        what="a tensor comes from where torch.export cannot follow: from .data in a function "
        "beside the module, or from torch.autograd.grad",
        hint="write x.detach() for x.data; leave gradients out of what acts",
    ),
    Rule(
        text=r"got FakeTensor|NotImplemented to Tensor|[Pp]acked",
        line=r"pack_padded_sequence|PackedSequence|self\.(rnn|lstm|gru)\(",
        code="RW192",
        what="a packed sequence has a length for each row; a graph has one shape for all",
        hint="step the policy: pass one frame and the hidden state, "
        "forward(obs, h) with memory={'h': zeros}; or pad, and choose the last step with gather",
    ),
    Rule(
        text=r"NotImplemented to Tensor|[Nn]ested",
        line=r"nested",
        code="RW192",
        what="a nested tensor has a length for each row; a graph has one shape for all",
        hint="use a padded tensor and a mask: x * mask[..., None]",
    ),
)
