"""What random policies are made of: one row an operator, as a line of Python and what it takes.

In the text of a row, `{0}` and `{1}` are the operands, `{out}` the result, `{me}` the layer that
`init` made, `{n}` the last size of the first operand, `{c}` its second, `{float}` the dtype that
the policy computes in, `{m0}` and `{m1}` what it remembers. The other names are parameters.

`takes` has a letter for each operand: v, s and i are floats with two, three and four axes (vectors,
sequences, images), x is any of them, = has the shape of the first, b is flags, k whole numbers,
u pixels, o floats of another dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Number = int | float
WIDTHS = (1, 2, 4, 7, 16)


@dataclass(frozen=True)
class State:
    """One memory of an operator: its shape with B for the batch, and its dtype."""

    shape: str
    dtype: str = "{float}"


@dataclass(frozen=True)
class Operator:
    """`lines` compute the result, and the next values of the memories."""

    name: str
    takes: str
    lines: tuple[str, ...]
    init: str = ""
    parameters: dict[str, Sequence[Number]] = field(default_factory=dict)
    state: tuple[State, ...] = ()
    weight: float = 1.0


OPERATORS: dict[str, Operator] = {}


def row(
    name: str,
    takes: str,
    *lines: str,
    init: str = "",
    state: tuple[State, ...] = (),
    weight: float = 1.0,
    **parameters: Sequence[Number],
) -> None:
    """Adds an operator; a single line without `=` in front is the result itself."""
    text = lines if len(lines) > 1 else (f"{{out}} = {lines[0]}",)
    OPERATORS[name] = Operator(name, takes, text, init, parameters, state, weight)


# Layers.
row("linear", "v", "{me}({0})", init="nn.Linear({n}, {width})", width=WIDTHS, weight=6)
row("mlp", "v", "{me}({0})", width=WIDTHS, weight=3,
    init="nn.Sequential(nn.Linear({n}, 16), nn.ELU(), nn.Linear(16, {width}))")  # fmt: skip
row("linear_each", "s", "{me}({0})", init="nn.Linear({n}, {width})", width=WIDTHS, weight=2)
row("bilinear", "v=", "{me}({0}, {1})", init="nn.Bilinear({n}, {n}, {width})", width=WIDTHS)
row("layer_norm", "x", "{me}({0})", init="nn.LayerNorm({n})", weight=2)
row("rms_norm", "x", "{me}({0})", init="nn.RMSNorm({n}, eps=1e-5)")
row("batch_norm", "v", "{me}({0})", init="nn.BatchNorm1d({n})")
row("group_norm", "i", "{me}({0})", init="nn.GroupNorm(1, {c})")
row("batch_norm_image", "i", "{me}({0})", init="nn.BatchNorm2d({c})")
row("dropout", "x", "{me}({0})", init="nn.Dropout(0.5)")
row("prelu", "x", "{me}({0})", init="nn.PReLU()")
row("embedding", "k", "{me}({0} % {count}).flatten(1)", init="nn.Embedding({count}, {width})",
    count=(2, 5, 9), width=(2, 4), weight=4)  # fmt: skip
row("one_hot", "k", "F.one_hot({0} % {count}, {count}).flatten(1).to({float})", count=(2, 5, 9))
row("table", "k", "{me}[{0} % {count}].flatten(1)", init="nn.Parameter(torch.randn({count}, 4))",
    count=(2, 5, 9))  # fmt: skip
# Convolutions and images.
row("conv", "i", "{me}({0})", weight=4, width=(2, 4), size=(1, 3), stride=(1, 2), padding=(0, 1),
    init="nn.Conv2d({c}, {width}, {size}, stride={stride}, padding={padding})")  # fmt: skip
row("conv_transposed", "i", "{me}({0})", init="nn.ConvTranspose2d({c}, 2, 2, stride=2)")
row("conv_time", "s", "{me}({0})", width=(2, 4), size=(1, 2, 3), padding=(0, 1), weight=2,
    init="nn.Conv1d({c}, {width}, {size}, padding={padding})")  # fmt: skip
row("max_pool", "i", "F.max_pool2d({0}, {size})", size=(2, 3))
row("average_pool", "i", "F.avg_pool2d({0}, {size})", size=(2, 3))
row("adaptive_pool", "i", "F.adaptive_avg_pool2d({0}, 1).flatten(1)")
row("pool_time", "s", "F.max_pool1d({0}, 2)")
row("pad", "x", "F.pad({0}, ({left}, {right}))", left=(0, 1, 2), right=(0, 1))
row("pad_reflect", "i", "F.pad({0}, (1, 1, 1, 1), mode='reflect')")
row("resize", "i", "F.interpolate({0}, scale_factor=2, mode='nearest')")
row("resize_smooth", "i",
    "F.interpolate({0}, scale_factor=2, mode='bilinear', align_corners=False)")  # fmt: skip
row("spatial_softmax", "i", "torch.softmax({0}.flatten(2), -1).matmul({me})",
    init="nn.Parameter(torch.rand({h} * {n}, 2))")  # fmt: skip
# Attention.
row("attention", "s", "{me}({0}, {0}, {0}, need_weights=False)[0]", heads=(1, 2), weight=2,
    init="nn.MultiheadAttention({n}, {heads}, batch_first=True)")  # fmt: skip
row("sdpa", "s", "F.scaled_dot_product_attention({0}[:, None], {0}[:, None], {0}[:, None])[:, 0]")
row("causal", "s", "F.scaled_dot_product_attention({0}[:, None], {0}[:, None], {0}[:, None], "
    "is_causal=True)[:, 0]")  # fmt: skip
row("own_attention", "s", "torch.softmax({0} @ {0}.transpose(1, 2) / {n} ** 0.5, -1) @ {0}")
row("encoder_layer", "s", "{me}({0})", weight=0.5,
    init="nn.TransformerEncoderLayer({n}, 1, 16, batch_first=True)")  # fmt: skip
# Pointwise.
for _name in (
    "relu", "sigmoid", "tanh", "sin", "cos", "atan", "erf", "abs", "neg", "square", "sign",
    "sinh", "cosh", "asinh", "expm1", "exp", "exp2", "floor", "ceil", "round", "trunc", "frac",
):  # fmt: skip
    row(_name, "x", f"torch.{_name}({{0}})", weight=0.7)
for _name in (
    "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign", "hardtanh",
    "hardswish", "hardsigmoid", "leaky_relu", "relu6", "tanhshrink", "softshrink", "hardshrink",
    "logsigmoid",
):  # fmt: skip
    row(_name, "x", f"F.{_name}({{0}})", weight=0.7)
row("gelu_tanh", "x", "F.gelu({0}, approximate='tanh')")
row("glu", "x", "F.glu(torch.cat([{0}, {0}.flip(-1)], -1), -1)")
row("tan", "x", "torch.tan(0.3 * torch.tanh({0}))")
row("asin", "x", "torch.asin({0}.clamp(-1, 1))")
row("acos", "x", "torch.acos({0}.clamp(-0.99, 0.99))")
row("atanh", "x", "torch.atanh({0}.clamp(-0.9, 0.9))")
row("acosh", "x", "torch.acosh(1.5 + {0}.abs())")
row("log", "x", "torch.log({0}.abs() + 0.1)")
row("log1p", "x", "torch.log1p({0}.abs())")
row("log2", "x", "torch.log2({0} ** 2 + 0.5)")
row("log10", "x", "torch.log10({0}.abs() + 1)")
row("logit", "x", "torch.logit({0}.clamp(0.1, 0.9))")
row("sqrt", "x", "torch.sqrt({0}.abs() + 0.01)")
row("rsqrt", "x", "torch.rsqrt({0} ** 2 + 0.1)")
row("reciprocal", "x", "1.0 / (1.0 + {0}.abs())")
row("power", "x", "{0}.abs().add(0.1).pow({exponent})", exponent=(0.5, 1.5, -1, 3))
row("cube", "x", "{0} ** 3")
row("clamp", "x", "{0}.clamp({low}, {high})", low=(-1, -0.3, 0), high=(0.5, 1, 4))
row("clamp_below", "x", "{0}.clamp(min=-0.5)")
row("scale", "x", "{factor} * {0} + {offset}", factor=(-1, 0.1, 3, 50), offset=(0, 0.5, -20))
row("remainder", "x", "torch.remainder({0}, {by})", by=(0.7, 1.0, 2.0, 6.283185307179586))
row("fmod", "x", "torch.fmod({0}, {by})", by=(0.7, 1.0, 2.0))
row("wrap", "x", "torch.atan2(torch.sin({0}), torch.cos({0}))")
row("nan_to_num", "x", "torch.nan_to_num({0})")
row("deg2rad", "x", "torch.deg2rad({0})")
row("round_decimals", "x", "torch.round({0}, decimals={decimals})", decimals=(0, 1, 2))
row("half_and_back", "x", "{0}.half().to({float})", weight=0.3)
# Two operands.
for _name in (
    "add", "sub", "mul", "maximum", "minimum", "hypot", "atan2", "logaddexp", "copysign", "fmax",
):  # fmt: skip
    row(_name, "x=", f"torch.{_name}({{0}}, {{1}})")
row("div", "x=", "{0} / (1.0 + {1}.abs())")
row("lerp", "x=", "torch.lerp({0}, {1}, {part})", part=(0.1, 0.5))
row("addcmul", "x==", "torch.addcmul({0}, {1}, {2}, value=0.5)")
row("where", "x=", "torch.where({0} > {limit}, {0}, {1})", limit=(0, 0.25, -1))
row("where_both", "x=", "torch.where({0} > {1}, {0} - {1}, 0.5 * {1})")
row("heaviside", "x=", "torch.heaviside({0}, {1})")
row("float_power", "x=", "({0}.abs() + 0.5) ** {1}.clamp(-2, 2)")
row("gate", "v=", "torch.sigmoid({0}) * {1}", weight=2)
row("cat", "vv", "torch.cat([{0}, {1}], -1)", weight=6)
row("cat_three", "vvv", "torch.cat([{0}, {1}, {2}], dim=1)", weight=2)
row("stack", "v=", "torch.stack([{0}, {1}], 1)", weight=2)
row("dot", "v=", "({0} * {1}).sum(-1, keepdim=True)")
row("outer", "vv", "torch.einsum('bi,bj->bij', {0}, {1})")
row("matmul", "ss", "{0} @ {1}.transpose(1, 2)[:, :{n}]")
row("cosine", "v=", "F.cosine_similarity({0}, {1}, dim=-1).unsqueeze(-1)")
row("distance", "v=", "torch.linalg.vector_norm({0} - {1} + 0.3, dim=-1, keepdim=True)")
row("cross", "v=", "torch.linalg.cross({0}[:, :3], {1}[:, :3])")
row("film", "sv", "{0} * {1}.mean(-1, keepdim=True).unsqueeze(1)")
# Reductions and normalisations.
for _name in ("sum", "mean", "amax", "amin", "prod"):
    row(_name, "x", f"{{0}}.{_name}(-1, keepdim=True)", weight=0.7)
row("pooled", "s", "{0}.mean(1)", weight=2)
row("pooled_max", "s", "{0}.amax(1)")
row("std", "x", "{0}.std(-1, keepdim=True, unbiased=False)")
row("variance", "s", "{0}.var(1)")
row("norm", "v", "{0}.norm(dim=-1, keepdim=True)")
row("norm_one", "x", "{0}.norm(p=1, dim=-1, keepdim=True)")
row("normalize", "x", "F.normalize({0}, dim=-1)")
row("standardize", "x",
    "({0} - {0}.mean(-1, keepdim=True)) / ({0}.std(-1, keepdim=True) + 0.1)")  # fmt: skip
row("softmax", "x", "torch.softmax({0}, -1)", weight=2)
row("softmin", "x", "F.softmin({0}, -1)")
row("log_softmax", "x", "F.log_softmax({0}, -1)")
row("logsumexp", "x", "torch.logsumexp({0}, -1, keepdim=True)")
row("cumsum", "x", "{0}.cumsum(-1)")
row("cumprod", "x", "{0}.tanh().cumprod(-1)")
row("cummax", "x", "{0}.cummax(-1).values")
row("logcumsumexp", "x", "torch.logcumsumexp({0}, -1)")
row("diff", "x", "torch.diff({0}, dim=-1)")
row("median", "x", "{0}.median(-1, keepdim=True).values")
# Order and choice.
row("sort", "x", "{0}.sort(-1).values")
row("sort_descending", "x", "{0}.sort(-1, descending=True).values")
row("topk", "v", "{0}.topk(2, -1).values")
row("argsort", "v", "{0}.argsort(-1)", weight=0.5)
row("argmax", "v", "{0}.argmax(-1, keepdim=True)", weight=2)
row("argmin", "v", "{0}.argmin(-1)")
row("take_best", "v=", "{0}.gather(1, {1}.argmax(-1, keepdim=True))")
row("take_along", "v=", "{0}.take_along_dim({1}.argsort(-1), 1)")
row("gather", "vk", "{0}.gather(1, {1}.flatten(1) % {n})")
row("select_time", "sk", "{0}[torch.arange({0}.shape[0]), {1}.flatten(1)[:, 0] % {c}]")
row("bucketize", "x", "torch.bucketize({0}, {me}).to({float})", weight=0.5,
    init="nn.Parameter(torch.tensor([-1.0, 0.0, 0.5, 2.0]), requires_grad=False)")  # fmt: skip
row("searchsorted", "v", "torch.searchsorted({me}, {0}.contiguous())", weight=0.5,
    init="nn.Parameter(torch.tensor([-1.0, 0.0, 0.5, 2.0]), requires_grad=False)")  # fmt: skip
# Shapes and indices.
row("flatten", "s", "{0}.flatten(1)", weight=3)
row("flatten_image", "i", "{0}.flatten(1)", weight=4)
row("tokens", "i", "{0}.flatten(2).transpose(1, 2)")
row("transpose", "s", "{0}.transpose(1, 2)")
row("unsqueeze", "v", "{0}.unsqueeze(1)")
row("rows", "v", "{0}.reshape({0}.shape[0], -1, {size})", size=(1, 2, 3), weight=2)
row("image_of", "v", "{0}.view({0}.shape[0], 1, -1, {size})", size=(1, 2, 3))
row("unflatten", "v", "{0}.unflatten(-1, (-1, 2))")
row("first", "x", "{0}[..., :{count}]", count=(1, 2, 3))
row("last", "x", "{0}[..., -{count}:]", count=(1, 2))
row("every_other", "x", "{0}[..., ::2]")
row("token", "s", "{0}[:, {place}]", place=(0, -1), weight=2)
row("indices", "v", "{0}[:, [0, -1, 0]]")
row("index_select", "x", "{0}.index_select(-1, {me})",
    init="nn.Parameter(torch.tensor([0, 1, 0]), requires_grad=False)")  # fmt: skip
row("flip", "x", "{0}.flip(-1)")
row("roll", "x", "torch.roll({0}, {shift}, -1)", shift=(1, -1, 2))
row("repeat", "v", "{0}.repeat(1, 2)")
row("tile", "s", "{0}.tile((1, 2, 1))")
row("repeat_interleave", "v", "{0}.repeat_interleave(2, dim=-1)")
row("expand", "v", "{0}.unsqueeze(1).expand(-1, 3, -1)")
row("chunk", "v", "{0}.chunk(2, -1)[{which}]", which=(0, -1))
row("split", "v", "{0}.split(1, dim=-1)[{which}]", which=(0, -1))
row("unbind", "s", "{0}.unbind(1)[{which}]", which=(0, -1))
row("narrow", "v", "{0}.narrow(1, {start}, 1)", start=(0, 1))
row("unfold", "v", "{0}.unfold(1, 2, 1)")
row("triangle", "s", "torch.tril({0})")
row("diagonal", "s", "{0}.diagonal(dim1=1, dim2=2)")
row("write", "v", "{out} = {0}.clone()", "{out}[:, 0] = 0.5")
row("write_slice", "v=", "{out} = {0}.clone()", "{out}[:, :1] += {1}[:, :1]")
row("masked_write", "x", "{out} = {0}.clone()", "{out}[{out} < {limit}] = 0.0", limit=(0, -0.5))
row("scatter", "v", "torch.zeros_like({0}).scatter(1, {0}.argmax(-1, keepdim=True), 1.0)")
row("scatter_add", "v=", "{0}.scatter_add(1, {1}.argmin(-1, keepdim=True), {1})")
row("index_add", "v", "{0}.index_add(1, {me}, {0}[:, :2])",
    init="nn.Parameter(torch.tensor([0, 0]), requires_grad=False)")  # fmt: skip
# Flags, whole numbers and other floats.
row("above", "v", "{0} > {limit}", limit=(0, 0.3, -1))
row("near", "v=", "({0} - {1}).abs() < 0.5")
row("isfinite", "v", "torch.isfinite({0})", weight=0.3)
row("flip_flags", "b", "~{0}")
row("both", "bb", "{0} & {1}[:, :1]")
row("any", "b", "{0}.any(-1, keepdim=True)")
row("all", "b", "{0}.all(-1, keepdim=True)")
row("flags_as_float", "b", "{0}.to({float})", weight=4)
row("count_flags", "b", "{0}.sum(-1, keepdim=True)")
row("masked_fill", "vb", "{0}.masked_fill({1}[:, :1], {value})", value=(0, -1, -1e9), weight=2)
row("where_flag", "x=b", "torch.where({2}.any(-1).view(-1, *[1] * ({0}.dim() - 1)), {0}, {1})")
row("masked_mean", "vb",
    "({0} * {1}[:, :1]).sum(-1, keepdim=True) / ({1}.sum(-1, keepdim=True) + 1)")  # fmt: skip
row("masked_softmax", "vb",
    "torch.softmax({0}.masked_fill({1}[:, :1], -1e9), dim=-1)")  # fmt: skip
row("whole_as_float", "k", "{0}.flatten(1).to({float})", weight=3)
row("whole_sum", "k", "{0}.flatten(1) * 3 - 1")
row("whole_division", "k", "{0}.flatten(1) // {by}", by=(2, 3))
row("whole_rest", "k", "{0}.flatten(1) % {by}", by=(2, 3))
row("whole_equals", "k", "{0}.flatten(1) == {value}", value=(0, 1, 2))
row("to_whole", "v", "({0} * 2).clamp(-9, 9).long()")
row("bits", "k", "({0}.flatten(1) >> 1) & 1")
row("pixels", "u", "{0}.to({float}) / 255.0", weight=8)
row("to_float", "o", "{0}.to({float})", weight=8)
# Memory.
V = (State("(B, {n})"),)
row("gru_cell", "v", "{m0} = {out} = {me}({0}, {m0})", "", init="nn.GRUCell({n}, {width})",
    state=(State("(B, {width})"),), width=(2, 4, 8), weight=2)  # fmt: skip
row("rnn_cell", "v", "{m0} = {out} = {me}({0}, {m0})", "", init="nn.RNNCell({n}, {width})",
    state=(State("(B, {width})"),), width=(2, 4, 8))  # fmt: skip
row("lstm_cell", "v", "{m0}, {m1} = {me}({0}, ({m0}, {m1}))", "{out} = {m0}",
    init="nn.LSTMCell({n}, {width})", state=(State("(B, {width})"),) * 2, width=(2, 4, 8),
    weight=2)  # fmt: skip
row("gru", "v", "{out}, {m0} = {me}({0}.unsqueeze(0), {m0})", "{out} = {out}.squeeze(0)",
    init="nn.GRU({n}, {width}, {layers})", state=(State("({layers}, B, {width})"),),
    width=(2, 4, 8), layers=(1, 2), weight=2)  # fmt: skip
row("lstm", "v", "{out}, ({m0}, {m1}) = {me}({0}.unsqueeze(0), ({m0}, {m1}))",
    "{out} = {out}.squeeze(0)", init="nn.LSTM({n}, {width}, {layers})",
    state=(State("({layers}, B, {width})"),) * 2, width=(2, 4, 8), layers=(1, 2),
    weight=2)  # fmt: skip
row("ema", "x", "{m0} = {out} = {keep} * {m0} + {share} * {0}", "", state=V, keep=(0.9, 0.5),
    share=(0.1, 0.5))  # fmt: skip
row("integrator", "v", "{m0} = {out} = ({m0} + 0.01 * {0}).clamp(-5, 5)", "", state=V)
row("leaky", "v", "{m0} = {out} = 0.99 * {m0} + {0}.tanh()", "", state=V)
row("delay", "v", "{out} = {m0}[:, 0]", "{m0} = torch.cat([{m0}[:, 1:], {0}.unsqueeze(1)], 1)",
    state=(State("(B, {lag}, {n})"),), lag=(1, 2, 5))  # fmt: skip
row("history", "v", "{m0} = {out} = torch.cat([{m0}[:, 1:], {0}.unsqueeze(1)], 1)", "",
    state=(State("(B, {lag}, {n})"),), lag=(2, 4))  # fmt: skip
row("rolled", "v", "{m0} = torch.roll({m0}, 1, 1)", "{m0} = torch.cat([{0}.unsqueeze(1), "
    "{m0}[:, 1:]], 1)", "{out} = {m0}.mean(1)", state=(State("(B, {lag}, {n})"),),
    lag=(2, 4))  # fmt: skip
row("difference", "v", "{out} = {0} - {m0}", "{m0} = {0}", state=V)
row("counter", "v", "{m0} = {m0} + 1", "{out} = {0} * torch.cos(0.1 * {m0}.to({float}))",
    state=(State("(B, 1)", "torch.int64"),))  # fmt: skip
row("clock", "v", "{m0} = ({m0} + 1) % 20", "{out} = {0} + torch.sin({m0}.to({float}) / 3.0)",
    state=(State("(B, 1)", "torch.int64"),))  # fmt: skip
row("phase", "v", "{m0} = torch.remainder({m0} + 0.03, 1.0)",
    "{out} = {0} * torch.sin(6.2831853 * {m0})", state=(State("(B, 1)"),))  # fmt: skip
row("peak", "v", "{m0} = {out} = torch.maximum(0.95 * {m0}, {0})", "", state=V)
row("latch", "v", "{m0} = {m0} | ({0} > 2.0)", "{out} = torch.where({m0}, -{0}, {0})",
    state=(State("(B, {n})", "torch.bool"),))  # fmt: skip
row("rate_limit", "v", "{m0} = {out} = {m0} + ({0} - {m0}).clamp(-0.1, 0.1)", "", state=V)
row("hysteresis", "v", "{m0} = torch.where({0} > 0.5, 1.0, torch.where({0} < -0.5, 0.0, {m0}))",
    "{out} = {0} * {m0}", state=V)  # fmt: skip
