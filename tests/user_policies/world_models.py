"""World models and model-based policies: TD-MPC2, Dreamer, ensembles."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.user_policies.cases import Family, carrying, mlp, obs

people = Family("world models")

OBS, ACT, LATENT = 10, 3, 16


class SimNorm(nn.Module):
    """Softmax over groups of eight."""

    def forward(self, x: Tensor) -> Tensor:
        shape = x.shape
        return functional.softmax(x.view(*shape[:-1], -1, 8), dim=-1).view(*shape)


class NormedLinear(nn.Linear):
    def __init__(self, inputs: int, outputs: int, act: nn.Module | None = None) -> None:
        super().__init__(inputs, outputs)
        self.ln, self.act = nn.LayerNorm(outputs), act or nn.Mish(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.act(self.ln(super().forward(x)))
        return result


class TdMpc2(nn.Module):
    """The policy prior of TD-MPC2: encode, then the squashed mean."""

    log_std_min: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(NormedLinear(OBS, 32), NormedLinear(32, LATENT, SimNorm()))
        self.pi = nn.Sequential(
            NormedLinear(LATENT, 32), NormedLinear(32, 32), nn.Linear(32, 2 * ACT)
        )
        self.register_buffer("log_std_min", torch.tensor(-10.0))

    def forward(self, obs: Tensor) -> Tensor:
        mean, _ = self.pi(self.encoder(obs)).chunk(2, dim=-1)
        return torch.tanh(mean)


@people.case(obs(OBS))
def td_mpc2_prior() -> nn.Module:
    return TdMpc2()


class Ensemble(nn.Module):
    """Q functions stacked and called by `vmap`, as TD-MPC2 has them."""

    def __init__(self, members: int = 3) -> None:
        super().__init__()
        nets = [mlp(LATENT + ACT, 32, 11, activation=nn.Mish) for _ in range(members)]
        params, _ = torch.func.stack_module_state(nets)  # type: ignore[arg-type]
        self.params = nn.ParameterDict(
            {k.replace(".", "_"): nn.Parameter(v) for k, v in params.items()}
        )
        self.names = list(params)
        self.__dict__["base"] = copy.deepcopy(nets[0]).to("meta")

    def forward(self, x: Tensor) -> Tensor:
        def one(params: dict[str, Tensor], x: Tensor) -> Any:
            return torch.func.functional_call(self.__dict__["base"], params, (x,))

        params = {name: self.params[name.replace(".", "_")] for name in self.names}
        result: Tensor = torch.vmap(one, (0, None))(params, x)
        return result


class BestOfCandidates(TdMpc2):
    """Candidates around the prior, valued by the ensemble; the best is taken."""

    offsets: Tensor
    bins: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.q = Ensemble()
        self.register_buffer("offsets", torch.randn(16, ACT) * 0.3)
        self.register_buffer("bins", torch.linspace(-10, 10, 11))

    def forward(self, obs: Tensor) -> Tensor:
        z = self.encoder(obs)
        mean = torch.tanh(self.pi(z).chunk(2, dim=-1)[0])
        candidates = (mean.unsqueeze(1) + self.offsets).clamp(-1, 1)
        repeated = z.unsqueeze(1).expand(-1, self.offsets.shape[0], -1)
        pairs = torch.cat([repeated, candidates], -1)
        logits = self.q(pairs.flatten(0, 1)).unflatten(1, (-1, self.offsets.shape[0]))
        symlog = (torch.softmax(logits, -1) * self.bins).sum(-1)
        value = (torch.sign(symlog) * (torch.exp(symlog.abs()) - 1)).min(0).values
        weights = torch.softmax(0.5 * value, dim=1)
        return (weights.unsqueeze(-1) * candidates).sum(1)


@people.case(obs(OBS))
def td_mpc2_candidates() -> nn.Module:
    return BestOfCandidates()


class Rssm(nn.Module):
    """Dreamer's filter: a GRU, discrete latents by their mode, symlog inputs, the actor's mean."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(OBS, 32, 16, activation=nn.SiLU)
        self.pre, self.cell = nn.Linear(8 * 4 + ACT, 16), nn.GRUCell(16, 24)
        self.post, self.actor = (
            nn.Linear(24 + 16, 8 * 4),
            mlp(24 + 32, 32, 2 * ACT, activation=nn.SiLU),
        )

    def initial(self, rows: int) -> dict[str, Tensor]:
        return {
            "deter": torch.zeros(rows, 24), "stoch": torch.zeros(rows, 8, 4),
            "action": torch.zeros(rows, ACT),
        }  # fmt: skip

    def forward(self, obs: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        embed = self.encoder(torch.sign(obs) * torch.log1p(obs.abs()))
        inputs = torch.cat([state["stoch"].flatten(1), state["action"]], -1)
        deter = self.cell(functional.silu(self.pre(inputs)), state["deter"])
        logits = self.post(torch.cat([deter, embed], -1)).view(-1, 8, 4)
        stoch = functional.one_hot(logits.argmax(-1), 4).float()
        mean = self.actor(torch.cat([deter, stoch.flatten(1)], -1)).chunk(2, -1)[0]
        action = torch.tanh(mean)
        return action, {"deter": deter, "stoch": stoch, "action": action}


def rssm_start() -> dict[str, Tensor]:
    return Rssm().initial(1)


@people.case(
    obs(OBS),
    memory={
        "state": {
            "deter": torch.zeros(1, 24),
            "stoch": torch.zeros(1, 8, 4),
            "action": torch.zeros(1, ACT),
        }
    },
    live=carrying(lambda m, given, state: m(given["obs"], state), rssm_start),
)
def dreamer() -> nn.Module:
    return Rssm()


class Carrying(nn.Module):
    """The same, keeping its state itself."""

    def __init__(self) -> None:
        super().__init__()
        self.rssm, self.state = Rssm(), Rssm().initial(1)

    def forward(self, obs: Tensor) -> Tensor:
        action, self.state = self.rssm(obs, self.state)
        result: Tensor = action
        return result


@people.case(obs(OBS), then="the hint")
def dreamer_keeping() -> nn.Module:
    return Carrying()


class Branching(TdMpc2):
    """A head for each kind of distribution; one of them is ever used."""

    def __init__(self, dist: str = "tanh") -> None:
        super().__init__()
        self.dist = dist

    def forward(self, obs: Tensor) -> Tensor:
        mean, spread = self.pi(self.encoder(obs)).chunk(2, -1)
        if self.dist == "tanh":
            return 5 * torch.tanh(mean / 5)
        if self.dist == "sampled":
            return torch.normal(mean, spread.exp())
        if self.dist == "checked" and mean.abs().max() > 1:
            return torch.from_numpy(mean.numpy())
        raise NotImplementedError(self.dist)


@people.case(obs(OBS))
def branches_not_taken() -> nn.Module:
    return Branching()


class Mbpo(nn.Module):
    """An ensemble of dynamics, elites only, and one step of lookahead with finite differences."""

    elites: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, OBS + ACT, 32) / 4)
        self.bias = nn.Parameter(torch.zeros(5, 1, 32))
        self.out = nn.Parameter(torch.randn(5, 32, OBS) / 6)
        self.register_buffer("elites", torch.tensor([0, 2, 4]))
        self.actor = mlp(OBS, 32, ACT)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        action = torch.tanh(self.actor(obs))
        x = torch.cat([obs, action], -1).unsqueeze(0).expand(5, -1, -1)
        hidden = functional.silu(torch.baddbmm(self.bias, x, self.weight))
        delta = torch.bmm(hidden, self.out).index_select(0, self.elites)
        return action, delta.std(0, unbiased=False).mean(-1)


@people.case(obs(OBS), outputs=("actions", "disagreement"))
def mbpo_disagreement() -> nn.Module:
    return Mbpo()


class Cem(nn.Module):
    """Three rounds of the cross-entropy method over a learned value, from fixed noise."""

    noise: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.q = mlp(OBS + ACT, 32, 1)
        self.register_buffer("noise", torch.randn(3, 24, ACT))

    def forward(self, obs: Tensor) -> Tensor:
        mean = torch.zeros(obs.shape[0], ACT)
        std = torch.ones_like(mean)
        for noise in self.noise:
            candidates = torch.clamp(mean[:, None] + std[:, None] * noise, -1, 1)
            each = torch.cat([obs[:, None].expand(-1, 24, -1), candidates], -1)
            best = self.q(each).squeeze(-1).topk(6, dim=1).indices
            elite = candidates.gather(1, best.unsqueeze(-1).expand(-1, -1, ACT))
            mean, std = elite.mean(1), elite.std(1)
        return mean


@people.case(obs(OBS))
def cem() -> nn.Module:
    return Cem()
