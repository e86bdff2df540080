"""A recurrent policy trained by reinforcement learning to balance a pole it cannot see moving."""
