"""Bare state_dicts of MLP, CNN, LSTM and GRU actors: weights, and no word about them."""

from __future__ import annotations

from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights
from roadworthy.frameworks.network.chain import ask_order, chain_of, critic_of, refuse_no_chain
from roadworthy.frameworks.network.chain_network import chain_reading
from roadworthy.frameworks.network.images import ask_images
from roadworthy.frameworks.questions import (
    ask_activation,
    ask_head,
    ask_no_normalizer,
)
from roadworthy.frameworks.reading import Answers, Reading


def recognise(contents: Contents) -> str | None:
    """Why the file looks like a state_dict: it maps names to tensors, and to nothing else."""
    weights = contents.tensors()
    whole = isinstance(contents.tree, dict) and len(weights) == len(contents.tree)
    return "it maps names to tensors, and to nothing else" if whole and weights else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What can be known of a network by the names and shapes of its weights."""
    weights = contents.tensors()
    refuse_bad_weights(weights, contents.where)
    chain = chain_of(weights)
    refuse_no_chain(chain, contents.where)
    chain = ask_order(answers, chain)
    activation = ask_activation(answers)
    images = ask_images(answers, chain.kernels) if chain.kernels else None
    if chain.of("lstm", "gru"):
        answers.note("behind the recurrent layer", "no activation", "the usual way")
    ask_no_normalizer(answers)
    head = ask_head(answers, chain.layers[-1].outputs)
    answers.note_noise(chain.noise)
    return chain_reading(
        contents,
        answers,
        chain,
        activation=activation,
        images=images,
        head=head,
        outputs=("action", "action_raw", "logits"),
        critic=critic_of(weights, chain),
    )
