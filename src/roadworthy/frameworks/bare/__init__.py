"""State_dicts of networks that no framework is known to have written."""
