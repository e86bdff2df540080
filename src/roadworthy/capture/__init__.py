"""From a live module to a Program: compose, substitute, record. The module comes back as it was."""
