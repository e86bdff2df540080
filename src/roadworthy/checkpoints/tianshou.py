"""placeholder"""
from roadworthy.checkpoints.opening import Contents


def recognise(contents: Contents) -> str | None:
    return None
