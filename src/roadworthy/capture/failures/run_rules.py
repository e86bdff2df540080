"""What a module raises when it is run on its example, and what to change."""

from __future__ import annotations

from roadworthy.capture.failures.rules import Rule
from roadworthy.capture.row_numbers import COMPUTE, READ
from roadworthy.errors import BatchSpecialised

RUN_RULES = (
    Rule(
        text=r"infer dtype of RowNumber|scalar_tensor\(\): argument 's' .* not Tensor",
        code="RW103",
        what=READ.format(how="torch.tensor()"),
        hint=COMPUTE,
    ),
    Rule(
        text=r"batch size \d+ doesn't match hidden",
        code="RW101",
        what="the state that a step starts from has the rows of the example, and not those of its "
        "input",
        hint="of a state in an attribute say its name: memory={'h': 'h'}; make one in forward with "
        "the rows of the input: torch.zeros(obs.shape[0], …)",
        kind=BatchSpecialised,
    ),
    Rule(
        text=r"(same dtype, but got|expected scalar type|have the same dtype,? but found).*"
        r"(?P<one>Float|Double|Half|BFloat16)\b.*\b(?P<two>Float|Double|Half|BFloat16)",
        code="RW116",
        what="the example and the weights have different precision: $one and $two",
        hint="module.float() and a float32 example; or rw.export(…, fix=True)",
    ),
    Rule(
        text=r"(?P<op>\w+)\(\): Expected dtype int64 for index|"
        r"(?P<one_hot>one_hot) is only applicable to index tensor|"
        r"tensors used as indices must be long",
        code="RW116",
        what="an index must be int64, and has another dtype",
        hint="index.long() where it is used; or rw.export(…, fix=True)",
    ),
    Rule(
        text=r"not compiled with CUDA|No CUDA GPUs|Found no NVIDIA|"
        r"torch\.cuda\.\w+Tensor not available|Expected all tensors to be on the same device|"
        r"found two different devices|convert cuda:\d+ device type tensor",
        code="RW119",
        what="forward puts a tensor on a device of its own choice, such as cuda, in a way that "
        "cannot be followed on the CPU, where the export runs",
        hint="use the device of the input: torch.zeros(…, device=obs.device)",
    ),
    Rule(
        text=r"forward asks whether a tensor is on a GPU",
        code="RW119",
        what="forward asks whether a tensor is on a GPU, and may compute one thing there and "
        "another on the CPU, where the export runs",
        hint="compute the same on every device: keep the branch that the policy was trained with",
    ),
    Rule(
        text=r"argument #1 'indices' to have one of the following scalar types: Long",
        code="RW116",
        what="an index must be int64, and is a float",
        hint="index.long() where it is used; or an example of int64: example={'obs': obs.long()}",
    ),
    Rule(
        text=r"index out of range in self",
        code="RW102",
        what="an index that comes from the inputs lies outside of the table: on the robot this "
        "would be a crash",
        hint="keep it inside where it is used: index.clamp(0, table.num_embeddings - 1); where the "
        "whole input is the index, its limits do too: about={'obs': rw.About(low=0, high=…)}",
    ),
    Rule(
        text=r"[Mm]eta tensor|device meta|on meta\b",
        code="RW119",
        what="a weight that forward uses is on the meta device: it has no values",
        hint="make the module on the CPU and load its weights: module.to_empty(device='cpu'), then "
        "module.load_state_dict(…)",
    ),
    Rule(
        text=r"more than one element of the written-to tensor",
        code="RW102",
        what="forward writes into a tensor whose rows share their memory (made by expand)",
        hint="write into a copy: x.expand(…).clone(), or add without writing: x = x + y",
    ),
)
