"""What to write instead of an operator that ONNX does not have."""

from __future__ import annotations

_CONSTANT = "where its input never changes, compute it once in __init__ and keep a buffer"
_SMALL = "write out the closed form of a 2×2 or 3×3 matrix (adjugate / determinant)"
_ROTATION = "make a rotation by Gram-Schmidt: F.normalize twice and torch.linalg.cross once"

# The name in `aten::`, without a trailing `_ex` or a leading underscore → the line to write.
REPLACEMENTS = {
    "linalg_inv": f"{_SMALL}; {_CONSTANT}",
    "linalg_solve": f"{_SMALL} and multiply; {_CONSTANT}",
    "linalg_lstsq": f"the normal equations, (AᵀA)⁻¹Aᵀb: {_SMALL}; {_CONSTANT}",
    "linalg_pinv": f"(AᵀA)⁻¹Aᵀ: {_SMALL}; {_CONSTANT}",
    "linalg_solve_triangular": f"substitute row by row: its size is fixed; {_CONSTANT}",
    "linalg_cholesky": f"write out its few entries: the size is fixed; {_CONSTANT}",
    "linalg_matrix_exp": f"Rodrigues' formula for a rotation; {_CONSTANT}",
    "linalg_svd": f"{_ROTATION}; {_CONSTANT}",
    "linalg_qr": f"{_ROTATION}; {_CONSTANT}",
    "linalg_eigh": _CONSTANT,
    "linalg_eig": _CONSTANT,
    "cdist_forward": "torch.linalg.vector_norm(a[:, None] - b, ord=p, dim=-1)",
    "linalg_householder_product": f"{_ROTATION}; {_CONSTANT}",
    "ndtri": "leave the quantile out of forward: a policy needs the mean, not a sample",
    "lgamma": "leave the likelihood out of forward: a policy needs the action alone",
    "digamma": "leave the likelihood out of forward: a policy needs the action alone",
    "polygamma": "leave the likelihood out of forward: a policy needs the action alone",
}


def replacement(operator: str) -> str:
    """The line to write instead of `aten::operator`, or an empty text."""
    plain = operator.lstrip("_").removesuffix("_ex")
    return REPLACEMENTS.get(plain, "")
