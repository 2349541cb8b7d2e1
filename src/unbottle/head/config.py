"""HeadConfig: everything needed to build a head, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from unbottle.head.projection import DEFAULT_FORM, FORMS, Form, current_name
from unbottle.method import Method

CONVENTIONS = ("paper", "release")
CLOSED = 7.0  # b_ptr of PG at the start; b of PS and CopyNet is -2 times as much: a fresh head is the plain softmax


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The one main dial is the method; the rest follows from the model it is attached to."""

    method: Method
    hidden_size: int  # D, of h^M and of the output embeddings
    vocabulary: int  # V
    encoder_decoder: bool = False
    source_size: int | None = None  # width of the encoder's states; None: D
    convention: str = "paper"  # or "release": what the authors' code does where it differs from their paper
    form: str = DEFAULT_FORM  # how the same functions are learnt: see `Form`
    neighbours: int = 4  # K: of each word of the context
    gate_start: float | int = CLOSED  # PG, PS, CopyNet: how far copying is turned off at the start

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", Method.parse(self.method))
        object.__setattr__(self, "form", current_name(self.form))
        if type(self.gate_start) is int:
            object.__setattr__(self, "gate_start", float(self.gate_start))
        for name in ("hidden_size", "vocabulary", "source_size", "neighbours"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} is {value!r}: expected a positive whole number.")
        for name, known in (("convention", CONVENTIONS), ("form", FORMS)):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name} {value!r}: expected one of {', '.join(known)}.")
        if not isinstance(self.gate_start, float) or not 0 <= self.gate_start <= 50:
            raise ValueError(f"gate_start {self.gate_start!r}: expected a number from 0, the paper's start, to 50.")
        self.method.check(encoder_decoder=self.encoder_decoder, vocabulary=self.vocabulary)

    @property
    def learnt(self) -> Form:
        """What the form means."""
        return FORMS[self.form]

    @property
    def block(self) -> tuple[int, int]:
        """Layers x window of hidden states the head reads; 1x1 without Mi."""
        return self.method.mi_block(encoder_decoder=self.encoder_decoder) or (1, 1)

    @property
    def q_size(self) -> int:
        return self.hidden_size * (2 if self.method.mi else 1)

    @property
    def bias(self) -> bool:
        """The paper's sizes say: projections have a bias on decoder-only models, none on encoder-decoder ones."""
        return not self.encoder_decoder

    def to_dict(self) -> dict[str, object]:
        values = {**asdict(self), "method": str(self.method)}
        for name in ("gate_start", "neighbours"):  # files of earlier versions lack them
            if values[name] == getattr(type(self), name):
                del values[name]
        return values
