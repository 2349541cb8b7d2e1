"""The Triton kernels themselves; `functions.py` calls them. Sums are in float32, or in float64 for float64 tensors."""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators

import triton
import triton.language as tl


@triton.jit
def block_maxima(
    values, maxima, row_stride, width, num_blocks, WIDE: tl.constexpr, MANY: tl.constexpr, BLOCK: tl.constexpr
):
    """The largest value of each block of columns, NaN if there is one. A program takes MANY blocks of one row."""
    row = tl.program_id(0).to(tl.int64)
    blocks = tl.program_id(1) * MANY + tl.arange(0, MANY)
    columns = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    some = tl.load(values + row * row_stride + columns, mask=columns < width, other=float("-inf")).to(WIDE)
    is_nan = some != some
    largest = tl.max(tl.where(is_nan, float("-inf"), some), axis=1)
    largest = tl.where(tl.max(is_nan.to(tl.int32), axis=1) > 0, float("nan"), largest)
    tl.store(maxima + row * num_blocks + blocks, largest, mask=blocks < num_blocks)


@triton.jit
def row_logsumexp(values, result, row_stride, width, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """log sum exp of each row, in one pass; -inf for a row of -inf. A program takes one row."""
    row = tl.program_id(0).to(tl.int64)
    highest = tl.full([BLOCK], float("-inf"), WIDE)  # of each lane
    total = tl.zeros([BLOCK], WIDE)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        some = tl.load(values + row * row_stride + columns, mask=columns < width, other=float("-inf")).to(WIDE)
        new = tl.where(some > highest, some, highest)
        safe = tl.where(tl.abs(new) == float("inf"), 0.0, new)
        total = total * tl.exp(highest - safe) + tl.exp(some - safe)
        highest = new
    largest = tl.max(highest, axis=0)
    shift = tl.where(tl.abs(largest) == float("inf"), 0.0, largest)
    total = tl.sum(total * tl.exp(highest - shift), axis=0)
    log = tl.log(tl.where(total == 0, 1.0, total)) + shift
    tl.store(result + row, tl.where(total == 0, float("-inf"), log))


@triton.jit
def row_softmax(values, log_Z, row_stride, width, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """exp(value - log Z) in place. A program takes BLOCK columns of one row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = values + row * row_stride + columns
    some = tl.load(at, mask=columns < width, other=0.0).to(WIDE)
    probability = tl.exp(some - tl.load(log_Z + row).to(WIDE))
    tl.store(at, probability.to(values.dtype.element_ty), mask=columns < width)


@triton.jit
def sampled_dots(f, weight, ids, result, num_words, size, WIDE: tl.constexpr, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """f_p . w of ids[p, s]. A program takes WORDS words of one position."""
    position = tl.program_id(0).to(tl.int64)
    words = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    is_word = words < num_words
    rows = tl.load(ids + position * num_words + words, mask=is_word, other=0) * size
    total = tl.zeros([WORDS, BLOCK], WIDE)
    for start in range(0, size, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        here = tl.load(f + position * size + columns, mask=columns < size, other=0.0).to(WIDE)
        inside = is_word[:, None] & (columns < size)[None, :]
        embeddings = tl.load(weight + rows[:, None] + columns[None, :], mask=inside, other=0.0).to(WIDE)
        total += embeddings * here[None, :]
    dots = tl.sum(total, axis=1).to(result.dtype.element_ty)
    tl.store(result + position * num_words + words, dots, mask=is_word)


@triton.jit
def sampled_rows(gradient, weight, ids, result, num_words, size, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """sum over s of gradient[p, s] * w of ids[p, s]. A program takes BLOCK columns of one position."""
    position = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], WIDE)
    for word in range(num_words):
        row = tl.load(ids + position * num_words + word) * size
        factor = tl.load(gradient + position * num_words + word).to(WIDE)
        total += factor * tl.load(weight + row + columns, mask=columns < size, other=0.0).to(WIDE)
    tl.store(result + position * size + columns, total.to(result.dtype.element_ty), mask=columns < size)


@triton.jit
def segment_rows(
    words, order, gradient, f, total, num_entries, num_words, size, MANY: tl.constexpr, BLOCK: tl.constexpr
):
    """total[x] += sum of gradient * f over the entries of word x, which are neighbours in `words`, sorted.

    A program takes BLOCK columns of MANY entries, and adds to the total where the word changes: a word of many entries
    is shared by programs, so the additions are atomic.
    """
    first = tl.program_id(0).to(tl.int64) * MANY
    end = tl.minimum(first + MANY, num_entries)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < size
    WIDE: tl.constexpr = total.dtype.element_ty
    run = tl.zeros([BLOCK], WIDE)
    for number in range(MANY):
        entry = first + number
        is_entry = entry < end
        word = tl.load(words + entry, mask=is_entry, other=-1)
        following = tl.load(words + entry + 1, mask=entry + 1 < end, other=-1)
        source = tl.load(order + entry, mask=is_entry, other=0)
        factor = tl.load(gradient + source, mask=is_entry, other=0.0).to(WIDE)
        row = (source // num_words) * size
        run += factor * tl.load(f + row + columns, mask=inside, other=0.0).to(WIDE)
        is_last = is_entry & (word != following)
        tl.atomic_add(total + word * size + columns, run, mask=columns < tl.where(is_last, size, 0))
        run = tl.where(is_last, 0.0, run)
