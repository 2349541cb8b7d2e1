"""unbottle methods: equations, parameters and the paper's numbers, of every method and on every kind of model."""

from __future__ import annotations

import json

import pytest
import tiny_causal
from byte_pairs import byte_pairs

from unbottle.cli.main import main
from unbottle.experiments.paper import ANY, PERPLEXITY, SMALL
from unbottle.head import Head, HeadConfig
from unbottle.head.equations import equations as equations_of
from unbottle.head.partition import PARTITIONS, Partition
from unbottle.method import LETTERS, PAPER_METHODS, Method


def run(capsys: pytest.CaptureFixture, *args: str) -> str:
    assert main(["methods", *args]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def equations(capsys: pytest.CaptureFixture, method: str, shape: str = "gpt2") -> list[str]:
    (found,) = json.loads(run(capsys, method, "--shape", shape, "--json"))
    return found["equations"]


def test_cpr(capsys) -> None:
    assert equations(capsys, "softmax+cpr:20,100+mi") == [
        "q = h ++ GELU(L_h(the last 3 states of the last 3 layers))",
        "Logit(x) = f_C . w_x + f_PD . e_x,LD   if x in c_t",
        "           f_R1 . w_x                  if x in W(20)",
        "           f_R2 . w_x                  if x in W(100)",
        "           f_V . w_x                   else",
        "P(x) = softmax(Logit)(x)",
    ]


def test_cepr(capsys) -> None:
    assert equations(capsys, "s+cepr:20", "t5-small") == [
        "Logit(x) = f_C . w_x + f_PD . e_x,LD   if x in c_t",
        "           f_E . w_x + f_PE . e_x,LE   if x in I",
        "           f_R1 . w_x                  if x in W(20)",
        "           f_V . w_x                   else",
        "P(x) = softmax(Logit)(x)",
    ]


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("softmax", "Logit(x) = f_V . w_x"),
        ("softmax+p", "Logit(x) = f_V . w_x + f_PD . e_x,LD   if x in c_t"),
        ("softmax+pr:20", "Logit(x) = now + f_PD . e_x,LD   if x in c_t"),
        ("softmax+cpr:20,100+wbwr:100", "Logit(x) = now + f_R . L_LD(q_x)       if x in W'(100)"),
        ("mos:2", "P(x) = sum_k prior_k softmax(Logit_k)(x) for k = 1..2"),
        ("pg", "P_E(j) = softmax_j(v . tanh(f_PD + L_LD(h_j) + b))"),
        ("ps", "s_j = f_PD . tanh(L_LD(h_j)) + b"),
        ("copynet", "Logit(x) = log(exp(f_V . w_x) + sum_j exp(f_PD . L_LD(h_j) + b))   if x in c_t"),
        ("none", "P(x) = that of the model: nothing is attached"),
    ],
)
def test_other_equations(method: str, line: str, capsys) -> None:
    assert line in equations(capsys, method)


def test_how_a_method_is_learnt(capsys) -> None:
    cepr = ["f_C = f_V + L_C(q)", "f_E = f_V + L_E(q)", "f_R1 = f_V + L_R1(q)"]  # P has local embeddings, not w_x
    divided = "every L is divided by the square root of its width"
    shown = run(capsys, "s+cepr:20", "--shape", "t5-small")
    assert f"  learnt as: {'; '.join([*cepr, 'f_V = h + L_V(q)', divided])}\n" in shown
    (found,) = json.loads(run(capsys, "s+cepr:20", "--shape", "t5-small", "--json"))
    assert found["forms"]["residual"] == cepr
    assert "paper" not in found["forms"]
    assert "  learnt as: " not in run(capsys, "none")


def test_the_steady_form(capsys) -> None:
    names = ("softmax+cpr:20+mi", "softmax+p", "softmax+c", "ps+mi")
    found = [each["forms"]["steady"] for each in json.loads(run(capsys, *names, "--json"))]
    lengths, products = "L_h reads states of length sqrt(D)", "L_LD, L_PD are divided by D^(1/4)"
    assert found == [
        ["f_C = f_V + L_C(q)", "f_R1 = f_V + L_R1(q)", lengths, "L_C, L_LD, L_PD, L_R1 are divided by D^(1/4)"],
        [products],
        ["f_C = f_V + L_C(q)", "L_C is divided by D^(1/4)"],
        [lengths, products],
    ]


@pytest.mark.parametrize("method", ["softmax+cr:5,9+mi", "mos:2+c", "softmax+p", "none"])
def test_a_head_of_either_form(method: str) -> None:
    """The equations of a head say its form; what is left out of them and how large it is do not depend on it."""
    heads = {
        form: Head(HeadConfig(method=Method.parse(method), hidden_size=4, vocabulary=20, form=form))
        for form in ("paper", "residual")
    }
    separate, difference = (equations_of(heads[form]) for form in ("paper", "residual"))
    lines = [line for line in difference if " = f_V + L_" in line]
    assert len(lines) == {"softmax+cr:5,9+mi": 3, "mos:2+c": 1}.get(method, 0)
    assert [line for line in difference if line not in lines] == separate
    assert len({sum(each.numel() for each in head.parameters()) for head in heads.values()}) == 1


def test_every_method_of_the_paper_is_shown_with_its_numbers(capsys) -> None:
    causal, seq2seq = (json.loads(run(capsys, "--shape", shape, "--json")) for shape in ("gpt2", "t5-small"))
    shown = {row["method"]: row for row in causal} | {row["method"]: row for row in seq2seq if "e" in row["method"]}
    assert set(map(str, map(Method.parse, PAPER_METHODS))) <= {row["method"] for row in [*causal, *seq2seq]}
    plain = causal[0]["parameters"]["plain model"]
    for method, numbers in PERPLEXITY[ANY][SMALL].items():
        row = shown[method]
        assert round((plain + row["parameters"]["added"]) / 1e6, 1) == numbers["Size"]
        assert sum(row["parameters"]["by part"].values()) == row["parameters"]["added"]
        assert row["paper"]["perplexity, GPT-2 Small"]["Wiki"] == numbers["Wiki"]


def test_for_people(capsys) -> None:
    out = run(capsys)
    assert "softmax+cpr:20,100+mi   (Softmax + CPR:20,100 + Mi)" in out
    assert "adds 12,391,680 parameters (10.0%): L_h 5,309,184" in out
    assert "paper, perplexity, GPT-2 Small: Size 136.8, Time 119.9, OWT 18.43, Wiki 23.42" in out
    assert "Not for a model without an encoder: softmax+e" in out
    assert "Not for a model with an encoder: softmax+wbwr:100+mi" in run(capsys, "--shape", "t5-small")


def test_a_model_of_ones_own(tmp_path, capsys) -> None:
    """With a head or without: the model below it is what counts."""
    folders = [tiny_causal.saved(tmp_path / name[:2], name, byte_pairs()) for name in ("plain", "softmax+c")]
    capsys.readouterr()
    found = [json.loads(run(capsys, "mos:2", "--model", folder, "--json")) for folder in folders]
    assert found[0] == found[1]
    assert found[0][0]["parameters"]["by part"] == {"prior": 34, "L_V": 272, "L_V2": 272}


@pytest.mark.parametrize("method", ["pg", "ps+mi", "copynet", "mos:2+c", "softmax+cpr:3,9+wbwr:5+mi:2x2"])
def test_it_counts_all_that_attach_adds(method: str, tmp_path, capsys) -> None:
    folder = tiny_causal.saved(tmp_path, "plain", byte_pairs())
    capsys.readouterr()
    (found,) = json.loads(run(capsys, method, "--model", folder, "--json"))
    head = tiny_causal.model(method, len(byte_pairs())).head
    assert found["parameters"]["added"] == sum(parameter.numel() for parameter in head.parameters())


def test_refusals(capsys) -> None:
    for args, said in (
        (["s+e"], "this model has no encoder"),
        (["--shape", "gpt5"], "shape 'gpt5': unknown. Known: gpt2"),
        (["softmax+r:99999"], "k = 99999 is more than the 50257 words"),
    ):
        assert main(["methods", *args]) == 2
        out, err = capsys.readouterr()
        assert (out, said in err) == ("", True)


@pytest.mark.parametrize("letter", list(PARTITIONS))
def test_every_partition_says_where_and_what(letter: str) -> None:
    method = f"softmax+{letter}{':5,9' if letter == 'r' else ''}"
    config = HeadConfig(method=Method.parse(method), hidden_size=4, vocabulary=20, encoder_decoder=True)
    for partition in PARTITIONS[letter](config):
        assert partition.where != Partition.where
        assert f"_{partition.name}" in partition.what


def test_help_names_every_part(capsys) -> None:
    assert main(["methods", "--help"]) == 0
    parts = " ".join(capsys.readouterr().out.split()).split("copynet; ")[1].split(". ")[0]
    assert {part.split(":")[0] for part in parts.split(", ")} == {*LETTERS, "mi", "wbwr"}
