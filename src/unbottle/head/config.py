"""HeadConfig: everything needed to build a head, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from unbottle.spec import Method

CONVENTIONS = ("paper", "release")
FORMS = ("separate", "difference", "steady")


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The one main dial is the method; the rest follows from the model it is attached to."""

    method: Method
    hidden_size: int  # D, of h^M and of the output embeddings
    vocabulary: int  # V
    encoder_decoder: bool = False
    source_size: int | None = None  # width of the encoder's states; None: D
    convention: str = "paper"  # or "release": what the authors' code does where it differs from their paper
    form: str = "separate"  # how the same is learnt: see `shares` and `is_steady`

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", Method.parse(self.method))
        for name in ("hidden_size", "vocabulary", "source_size"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} is {value!r}: expected a positive whole number.")
        for name, known in (("convention", CONVENTIONS), ("form", FORMS)):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name} {value!r}: expected one of {', '.join(known)}.")
        self.method.check(encoder_decoder=self.encoder_decoder, vocabulary=self.vocabulary)

    @property
    def shares(self) -> bool:
        """Form "difference", or "steady": L^f_C, L^f_E and L^f_R are learnt as what they add to L^f_V."""
        return self.form != "separate"

    @property
    def is_steady(self) -> bool:
        """Form "steady": Mi reads states of length sqrt(D), and every L^f that starts at nothing is divided by D^(1/4).

        Hidden states of Llama and its like are large, and larger in some dimensions and below the last layer: without
        this, a step of training moves some logits by hundreds.
        """
        return self.form == "steady"

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
        return {**asdict(self), "method": str(self.method)}
