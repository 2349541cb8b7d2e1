"""The vLLM plugin: vLLM's own model classes with a head in place of their output layer."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from vllm.distributed import (
    get_tensor_model_parallel_world_size,
    tensor_model_parallel_all_gather,
    tensor_model_parallel_all_reduce,
)
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod
from vllm.model_executor.models.interfaces import supports_eagle3
from vllm.sequence import IntermediateTensors
from vllm.v1.attention.backend import AttentionBackend, AttentionImpl, AttentionMetadataBuilder
from vllm.v1.kv_cache_interface import FullAttentionSpec

from unbottle.head import Embedding, Head, HeadConfig, Knobs, Projection
from unbottle.head.multi_input import MultiInput
from unbottle.hf.checkpoint import HEAD_WEIGHTS, MISSING, UNEXPECTED, refuse_broken_values, refuse_wrong_weights
from unbottle.hf.configuration import HEAD, PREFIX, stored_head, take_off
from unbottle.hf.output_scaling import Quirks
from unbottle.hf.paged_state import Batch, PagedHead, as_bits, from_bits
from unbottle.ops import dots
from unbottle.serve import BASES, LAYERS, reason_against

if TYPE_CHECKING:
    from typing import Any as Model  # what the mixin is mixed into: a model class of vLLM
else:
    Model = object

STATE = "unbottle_state"  # the name of the layer that keeps the state, with a number as vLLM wants it


class StateImpl(AttentionImpl):
    """Nothing attends to the state: the head reads it."""

    def __init__(self) -> None:
        pass

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        raise NotImplementedError("the head's state has no attention.")


class StateMetadata:
    """The requests of a step. Read from the device once, when a model asks."""

    def __init__(self, common: Any) -> None:
        self.common = common

    @functools.cached_property
    def batch(self) -> Batch:
        requests = self.common.num_reqs
        starts = self.common.query_start_loc[: requests + 1].tolist()
        lengths = self.common.seq_lens[:requests].tolist()
        return Batch(starts, lengths, self.common.block_table_tensor[:requests], self.common.slot_mapping)


class StateMetadataBuilder(AttentionMetadataBuilder[StateMetadata]):
    """vLLM calls it before each step with the pages of the group of layers that the state is in."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> StateMetadata:
        return StateMetadata(common_attn_metadata)


class StateBackend(AttentionBackend):
    """Pages of any shape; no kernels."""

    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16, torch.float32]

    @staticmethod
    def get_name() -> str:
        return "UNBOTTLE_STATE"

    @staticmethod
    def get_impl_cls() -> type[StateImpl]:
        return StateImpl

    @staticmethod
    def get_builder_cls() -> type[StateMetadataBuilder]:
        return StateMetadataBuilder

    @classmethod
    def supports_mm_prefix(cls) -> bool:
        return True


class StateLayer(nn.Module, AttentionLayerBase):
    """What a head remembers of each token, in vLLM's own pages: counted, shared and moved as attention's are."""

    def __init__(
        self, columns: int, dtype: torch.dtype, vllm_config: Any, name: str, on_loaded: Callable[[], None]
    ) -> None:
        super().__init__()
        self.columns, self.dtype, self.name, self.on_loaded = columns, dtype, name, on_loaded
        self.impl = StateImpl()
        self.kv_cache = torch.tensor([])
        self.knobs: dict[int, Knobs] = {}  # of requests of the batch that have some of their own
        layers = vllm_config.compilation_config.static_forward_context
        if name in layers:
            raise ValueError(f"a layer called {name!r} is there already.")
        layers[name] = self

    def get_attn_backend(self) -> type[AttentionBackend]:
        return StateBackend

    def get_kv_cache_spec(self, vllm_config: Any) -> FullAttentionSpec:
        return FullAttentionSpec(
            block_size=vllm_config.cache_config.block_size,
            num_kv_heads=1,
            head_size=self.columns,
            head_size_v=0,
            dtype=self.dtype,
        )

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """vLLM calls it for layers with a KV cache when all weights of a model are loaded, or loaded again."""
        self.on_loaded()

    @property
    def memory(self) -> Tensor:
        return self.kv_cache[:, 0]

    def batch(self) -> Batch | None:
        """The requests of the current step; None while vLLM measures memory."""
        metadata = get_forward_context().attn_metadata
        if isinstance(metadata, list):
            raise NotImplementedError("a model with a head does not run in micro-batches (--enable-dbo).")
        if not metadata or self.name not in metadata or not self.kv_cache.numel():
            return None
        batch: Batch = metadata[self.name].batch
        return batch


@dataclass(frozen=True, kw_only=True)
class ShardedEmbedding(Embedding):
    """Word embeddings of which each process holds some rows: products are computed where the rows are, and added up."""

    start: int  # the first word of the rows here
    words: int  # V

    @property
    def vocabulary(self) -> int:
        return self.words

    def products(self, f: Tensor) -> Tensor:
        gathered: Tensor = tensor_model_parallel_all_gather(super().products(f))
        return gathered[..., : self.words]

    def products_at(self, f: Tensor, ids: Tensor) -> Tensor:
        here = ids - self.start
        mine = (here >= 0) & (here < len(self.weight))
        products = dots(f, self.weight, here.where(mine, 0), self.into).where(mine, 0)
        summed: Tensor = tensor_model_parallel_all_reduce(products.contiguous())
        return summed


class Recorder(nn.Module):
    """The states between some layers, of models without the interface by which EAGLE-3 asks for them.

    They are copied into buffers that stay where they are, so that compiled and captured models write there too.
    """

    def __init__(self, layers: Any, wanted: Sequence[int], rows: int, config: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.names = [f"before_{layer}" for layer in wanted]
        for name, layer in zip(self.names, wanted, strict=True):
            states = torch.zeros((rows, config.get_text_config().hidden_size), dtype=dtype)
            self.register_buffer(name, states, persistent=False)
            layers[layer - 1].register_forward_hook(functools.partial(_record, states))

    def states(self, rows: int) -> list[Tensor]:
        """In the order of the layers."""
        return [self.get_buffer(name)[:rows] for name in self.names]


def _record(states: Tensor, module: nn.Module, given: Any, output: Any) -> None:
    """What the next layer reads: vLLM's layers return the residual stream in two parts, or as one tensor."""
    hidden = output[0] + output[1] if isinstance(output, tuple) else output
    states[: len(hidden)].copy_(hidden)


class Product(nn.Module):
    """The matrices of a head that multiply the same rows as one, by vLLM's own kernel: on CPUs it packs the weight."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, layers: Sequence[Projection | MultiInput]) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        self.quant_method = UnquantizedLinearMethod()
        self.sizes: list[int] = []  # rows of each matrix, once they are joined
        self._rows: Tensor | None = None  # the last ones that several layers multiply, and their products
        self._products: Sequence[Tensor] = ()
        for number, layer in enumerate(layers):
            layer.kernel = functools.partial(self.part, number)

    def join(self) -> None:
        """Take the weights over; Mi adds its bias itself."""
        self.sizes = [len(layer.weight) for layer in self.layers]
        self.weight = nn.Parameter(torch.cat([layer.weight.data for layer in self.layers]), requires_grad=False)
        biases = [layer.bias.data for layer in self.layers if isinstance(layer, Projection) and layer.bias is not None]
        self.bias = nn.Parameter(torch.cat(biases), requires_grad=False) if biases else None
        for layer in self.layers:
            layer.weight.data = layer.weight.data[:0].clone()
        self.quant_method.process_weights_after_loading(self)

    def divide(self) -> None:
        """Make room for other weights in the layers; nothing where they are not joined."""
        if self.sizes:
            for layer, rows in zip(self.layers, self.sizes, strict=True):
                layer.weight.data = layer.weight.data.new_empty((rows, layer.weight.shape[1]))
        self._rows, self._products = None, ()

    def part(self, number: int, rows: Tensor) -> Tensor:
        """W q + b of one of the layers. The products of all of them are kept for those that ask next."""
        if rows is self._rows:
            return self._products[number]
        if not self.sizes:  # --load-format dummy loads nothing
            self.join()
        products: Tensor = self.quant_method.apply(self, rows.contiguous(), self.bias)
        if len(self.layers) == 1:
            return products
        self._rows, self._products = rows, products.split(self.sizes, dim=-1)
        return self._products[number]


def matrices(head: Head, dtype: torch.dtype) -> Iterable[Sequence[Projection | MultiInput]]:
    """The layers of a head that vLLM multiplies with, those of the same rows together."""
    if head.L_h is not None:
        yield [head.L_h]
    if dtype != torch.float16:  # its products are widened
        projections: dict[str, Any] = dict(head.L.items())
        for names in ({*head.context_keys}, {*projections} - {*head.context_keys}):
            if names:
                yield [layer for name, layer in projections.items() if name in names]


class ServedHead(Model):
    """Comes before vLLM's own class: the same model, another output layer under `head`.

    `forward` returns q of every row, with the number of the row as bits behind it. vLLM picks the rows to sample from,
    and `compute_logits` knows by these bits which request and position each of them is.
    """

    architecture: str  # as transformers names it
    embedding_modules: ClassVar[dict[str, str]] = {}  # a LoRA adapter of the output layer is refused: the head reads W

    def __init__(self, *, vllm_config: Any, prefix: str = "", **kwargs: Any) -> None:
        config = vllm_config.model_config.hf_config
        head_config = stored_head(getattr(config, HEAD, None), f"config.json, {HEAD!r}")
        refuse(head_config, vllm_config)
        take_off(config)
        super().__init__(vllm_config=vllm_config, prefix=prefix, **kwargs)
        self._quirks = Quirks.of(config)
        self._path = vllm_config.model_config.model
        dtype = vllm_config.model_config.dtype
        depth, count = head_config.block[0], config.get_text_config().num_hidden_layers
        lower = range(count - depth + 1, count)
        self._recorder: Recorder | None = None
        if lower and supports_eagle3(self):
            self.set_aux_hidden_state_layers(tuple(lower))
        elif lower:
            rows = vllm_config.scheduler_config.max_num_batched_tokens
            self._recorder = Recorder(operator.attrgetter(LAYERS[self.architecture])(self), lower, rows, config, dtype)
        # No submodules: vLLM would take them for layers whose weights it replaces when it reloads a checkpoint
        self._paged = PagedHead(Head(head_config).eval(), dtype)
        self._matrices = [Product(layers) for layers in matrices(self.head, dtype)]
        self._state = StateLayer(self._paged.layout.columns, dtype, vllm_config, f"{STATE}.{count}", self._on_loaded)
        self._packed = False
        self._batch: Batch | None = None

    @property
    def head(self) -> Head:
        return self._paged.head

    def forward(self, input_ids: Any, positions: Any, *args: Any, **kwargs: Any) -> Any:
        if input_ids is None:
            raise ValueError("embeddings without ids: the head needs the words of a prompt.")
        output = super().forward(input_ids, positions, *args, **kwargs)
        if isinstance(output, IntermediateTensors):
            return output
        last, below = output if isinstance(output, tuple) else (output, [])
        if self._recorder is not None:
            below = self._recorder.states(len(last))
        last = last if self._quirks.hidden_scale == 1.0 else last * self._quirks.hidden_scale
        layers = torch.stack([last, *reversed(below)], dim=1)
        self._batch = self._state.batch()
        numbers = as_bits(torch.arange(len(layers), device=layers.device), layers.dtype)
        size = self.head.config.q_size
        rows = layers.new_zeros((len(layers), size + numbers.shape[1]))
        rows[:, size:] = numbers
        if self._batch is not None:
            real = self._batch.num_tokens
            rows[:real, :size] = self._paged.read(layers[:real], input_ids[:real], self._batch, self._state.memory)
        return rows

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        size = self.head.config.q_size
        q = hidden_states[:, :size]
        if self._batch is None:
            return self._unread(q)
        numbers = from_bits(hidden_states[:, size:]).tolist()
        turned = self._state.knobs
        knobs = (lambda request: turned.get(request, self.head.knobs)) if turned else None
        return self._paged.scores(q, numbers, self._embedding, self._batch, self._state.memory, knobs)

    def _unread(self, q: Tensor) -> Tensor:
        """Logits where no text was read: vLLM measures memory with such rows."""
        batch = Batch(
            range(len(q) + 1), [1] * len(q), torch.zeros((len(q), 1), dtype=torch.long, device=q.device), q[:, 0]
        )
        memory = q.new_zeros((1, 1, self._paged.layout.columns))
        return self._paged.scores(q, range(len(q)), self._embedding, batch, memory)

    @property
    def _output(self) -> Any:
        """vLLM's output layer."""
        return self.lm_head if hasattr(self, "lm_head") else self.model.embed_tokens  # Gemma ties them by hand

    @functools.cached_property
    def _embedding(self) -> Embedding:
        output = self._output
        words = self.head.config.vocabulary
        if not isinstance(getattr(output, "quant_method", None), UnquantizedEmbeddingMethod):
            raise ValueError("the output layer is quantised, and the head reads its rows. Leave lm_head unquantised.")
        bias = getattr(output, "bias", None)
        quirks: dict[str, Any] = {"scale": self._quirks.scale, "softcap": self._quirks.softcap}
        if get_tensor_model_parallel_world_size() == 1:
            kernel = functools.partial(_products, output, words)
            bias = None if bias is None else bias[:words]
            return Embedding(weight=output.weight[:words], bias=bias, kernel=kernel, **quirks)
        self.head.path = "dense"
        bias = None if bias is None else tensor_model_parallel_all_gather(bias[None])[0, :words]
        start = output.shard_indices.padded_org_vocab_start_index
        kernel = functools.partial(_products, output, len(output.weight))
        return ShardedEmbedding(weight=output.weight, bias=bias, start=start, words=words, kernel=kernel, **quirks)

    def _on_loaded(self) -> None:
        """Weights are there. Reloading, vLLM does not pack those again that the output layer shares with the input."""
        if self._packed and isinstance(self._output.quant_method, UnquantizedEmbeddingMethod):
            self._output.quant_method.process_weights_after_loading(self._output)
        self._packed = True

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        mine: dict[str, Tensor] = {}

        def others() -> Iterable[tuple[str, Tensor]]:
            for name, weight in weights:
                if name.startswith(HEAD_WEIGHTS):
                    mine[name] = weight
                else:
                    yield name, weight

        loaded: set[str] = super().load_weights(others())
        expected = {f"{HEAD_WEIGHTS}{name}" for name in self.head.state_dict()}
        refuse_wrong_weights(self._path, {MISSING: expected - {*mine}, UNEXPECTED: {*mine} - expected})
        refuse_broken_values(self._path, mine)
        for product in self._matrices:
            product.divide()
        self.head.load_state_dict({name.removeprefix(HEAD_WEIGHTS): weight for name, weight in mine.items()})
        for product in self._matrices:
            product.join()
        return loaded | expected

    @property
    def compute_logits_local(self) -> Any:
        """Absent: logits of a part of the vocabulary are not what a head gives."""
        raise AttributeError("a model with a head has no logits of a part of the vocabulary")


def _products(output: Any, words: int, f: Tensor) -> Tensor:
    """f . w_x of the words of an output layer, by the kernel that vLLM chose: it packs the weight when it is loaded."""
    products: Tensor = output.quant_method.apply(output, f.contiguous())
    return products[..., :words]


def refuse(head: HeadConfig, vllm_config: Any) -> None:
    """Say what a model with a head does not do here, before anything is loaded."""
    if head.method.wbwr:
        raise ValueError(
            f"method {str(head.method)!r}: wbwr runs the model a second time on candidate words whose states are not "
            "kept, and a step of vLLM is one pass. Use generate(), or a method without wbwr."
        )
    parallel = vllm_config.parallel_config
    for name in ("pipeline_parallel_size", "decode_context_parallel_size"):
        if (size := getattr(parallel, name, 1)) > 1:
            raise ValueError(f"{name}={size}: a model with a head runs with 1. Use tensor_parallel_size.")
    if vllm_config.model_config.enable_prompt_embeds:
        raise ValueError("enable_prompt_embeds: the head needs the words of a prompt, and embeddings do not tell them.")


@functools.cache
def served(name: str) -> type:
    """vLLM's class of an architecture, with a head."""
    if name not in BASES:
        raise ValueError(f"{name} {reason_against(name)} Served with a head: {', '.join(sorted(BASES))}.")
    module, kind = BASES[name]
    base: Any = getattr(importlib.import_module(module), kind)
    return type(PREFIX + name, (ServedHead, base), {"__module__": __name__, "architecture": name})


def __getattr__(name: str) -> Any:
    if name.startswith(PREFIX):
        return served(name.removeprefix(PREFIX))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
