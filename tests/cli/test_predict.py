"""The commands that answer about pictures and tables, from a line in a terminal to its answer."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard import recipe
from regard.cli import run
from regard.data import images
from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitFramesConfig, DigitImageConfig
from tests.documents import ROOT

SHORT = ["training.steps=2", "model.channels=[4, 4, 4]", "data.valid=4", "data.batch_size=4"]


def output_of(capsys, *line: object) -> str:
    assert run([str(word) for word in line]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of each kind, hardly trained, and files to ask about."""
    here = tmp_path_factory.mktemp("answering")
    for name in ("locate-digits", "count-digits"):
        settings = recipe.settings(ROOT / "recipes" / f"{name}.yaml", *SHORT)
        recipe.train(settings, out=here / name, quiet=True)
    table = ROOT / "regard" / "samples" / "pendulum.csv"
    brief = ["training.steps=300", f"data.train={table}"]
    recipe.train(recipe.settings(ROOT / "recipes" / "pendulum.yaml", *brief), out=here / "pendulum", quiet=True)
    body = ["data.target=body", "data.predicts=class", "data.inputs=[length, angle, period]"]
    recipe.train(recipe.settings(ROOT / "recipes" / "pendulum.yaml", *brief, *body), out=here / "body", quiet=True)
    images.write(here / "digit.png", digit_scenes.scene_dataset(DigitImageConfig(), "valid")[0].image)
    for number, frame in enumerate(digit_scenes.scene_dataset(DigitFramesConfig(), "valid")[0].images):
        images.write(here / f"frame{number}.png", frame)
    return here


def test_locate_prints_a_digit_and_its_box_and_draws_it(folder, capsys):
    output = output_of(capsys, "locate", folder / "locate-digits", folder / "digit.png", "-o", folder / "drawn.png")
    name, digit, sure, box = output.rstrip("\n").split("\t")
    assert name == str(folder / "digit.png")
    assert 0 <= int(digit) <= 9
    assert 0 < float(sure) <= 1
    left, top, right, bottom = map(float, box.split())
    result = json.loads(output_of(capsys, "locate", folder / "locate-digits", folder / "digit.png", "--json"))
    assert (result["picture"], result["box"]) == (name, [left, top, right, bottom])
    with Image.open(folder / "drawn.png") as picture:
        assert picture.size == (192, 192)
        shades = np.asarray(picture.convert("RGB")).astype(int)
    red = (shades[..., 0] > 200) & (shades[..., 1] < 60)
    rows, columns = np.flatnonzero(red.sum(1) > 20), np.flatnonzero(red.sum(0) > 20)
    inside = (max(left, 0), max(top, 0), min(right, 48), min(bottom, 48))
    drawn_sides = (columns[0] / 4, rows[0] / 4, columns[-1] / 4, rows[-1] / 4)
    visible_sides = [side for side, edge in zip(range(4), (left, top, right, bottom), strict=True) if 0 < edge < 48]
    assert all(abs(drawn_sides[side] - inside[side]) < 1 for side in visible_sides)


def test_json_keeps_the_letters_of_a_name(folder, capsys):
    path = folder / "été.png"
    path.write_bytes((folder / "digit.png").read_bytes())
    assert "été.png" in output_of(capsys, "locate", folder / "locate-digits", path, "--json")
    frame = folder / "août.png"
    frame.write_bytes((folder / "frame0.png").read_bytes())
    assert "août.png" in output_of(capsys, "count", folder / "count-digits", frame, "--json")


def test_several_pictures_are_several_lines_and_inverting_is_an_option(folder, capsys):
    both = output_of(capsys, "locate", folder / "locate-digits", folder / "digit.png", folder / "digit.png")
    assert both.count("\n") == 2
    light = output_of(capsys, "locate", folder / "locate-digits", folder / "digit.png", "--invert")
    assert light != both.splitlines(keepends=True)[0]


def test_count_prints_a_number_for_every_frame(folder, capsys):
    frames = [folder / f"frame{number}.png" for number in range(8)]
    lines = output_of(capsys, "count", folder / "count-digits", *frames).splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(frame) for frame in frames]
    assert all(0 <= int(line.split("\t")[1]) <= 4 for line in lines)
    records = [
        json.loads(line)
        for line in output_of(capsys, "count", folder / "count-digits", *frames, "--json").split("\n")[:-1]
    ]
    assert [str(record["count"]) for record in records] == [line.split("\t")[1] for line in lines]


def test_predict_prints_a_line_for_every_row_and_evaluate_says_how_good_they_are(folder, capsys):
    table = folder / "new.csv"
    table.write_text("gravity,length,angle,period\n9.81,1.0,10,2.01\n1.62,2.0,90,8.24\n")
    first, second = map(float, output_of(capsys, "predict", folder / "pendulum", "-i", table).split())
    assert 0 < first < 4 < second < 14
    output = output_of(capsys, "evaluate", folder / "pendulum", table)
    assert re.search(r"rows +2\b", output)
    assert "r2 " in output
    table.write_text("gravity,length,angle\n9.81,1.0,10\n")
    assert run(["evaluate", str(folder / "pendulum"), str(table)]) == 1
    assert "has no column 'period'" in capsys.readouterr().err
    result = json.loads(output_of(capsys, "predict", folder / "pendulum", "-i", table, "--json"))
    assert result["value"] == pytest.approx(first, rel=1e-3)
    assert float(output_of(capsys, "predict", folder / "pendulum", "gravity=9.81,length=1,angle=10")) == pytest.approx(
        first
    )


def test_predict_answers_with_classes_too(folder, capsys):
    table = folder / "bodies.csv"
    table.write_text("length,angle,period\n1.0,10,2.01\n2.0,10,9.0\n")
    records = [
        json.loads(line) for line in output_of(capsys, "predict", folder / "body", "-i", table, "--json").splitlines()
    ]
    assert records[0]["value"] == "Earth"
    assert all(0.25 < record["probability"] <= 1 for record in records)
    assert output_of(capsys, "predict", folder / "body", "-i", table).split() == [record["value"] for record in records]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["locate", "{0}/locate-digits", "{0}/frame0.png"], "32 x 32 pixels and the model reads 48 x 48"),
        (["locate", "{0}/locate-digits", "{0}/locate-digits/config.yaml"], "is no picture that can be read"),
        (["locate", "{0}/locate-digits", "nowhere.png"], "no file nowhere.png"),
        (["locate", "{0}/locate-digits", "{0}"], "is a folder: name the picture files"),
        (["locate", "{0}/locate-digits", "{0}/digit.png", "-o", "{0}/digit.png"], "digit.png is also the input"),
        (["locate", "{0}/locate-digits", "{0}/digit.png", "{0}/digit.png", "-o", "x.png"], "one at a time"),
        (
            ["locate", "{0}/count-digits", "{0}/digit.png"],
            "digits; regard locate needs a model that finds digits (try",
        ),
        (["count", "{0}/count-digits", "{0}/digit.png"], "48 x 48 pixels and the model reads 32 x 32"),
        (
            ["count", "{0}/pendulum", "{0}/digit.png"],
            "is a model of tables; regard count needs a model that counts",
        ),
        (["predict", "{0}/pendulum", "-i", "nowhere.csv"], "no file nowhere.csv"),
        (["predict", "{0}/pendulum", "{0}/few.csv"], "few.csv is a file: use -i"),
        (["predict", "{0}/pendulum", "long"], "'long' is no row: name its columns"),
        (["predict", "{0}/pendulum", "-i", "{0}/empty.csv"], "empty.csv is empty"),
        (["predict", "{0}/pendulum", "-i", "{0}/header.csv"], "header.csv holds no rows"),
        (["predict", "{0}/pendulum", "-i", "{0}/text.csv"], "text.csv:3: 'long' in column length is no number"),
        (["predict", "{0}/pendulum", "-i", "{0}/few.csv"], "few.csv has no column 'gravity'"),
        (["predict", "{0}/pendulum", "-i", "{0}/large.csv"], "large.csv:2: 1e308 in column length is beyond 1e+30"),
        (["predict", "{0}/pendulum", "-i", "{0}/long.csv"], "long.csv:2: a line of more than 1,048,576 bytes"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, capsys, line, message):
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("length,angle,gravity\n")
    (folder / "text.csv").write_text("length,angle,gravity\n1,2,3\nlong,2,3\n")
    (folder / "few.csv").write_text("length,angle\n1,2\n")
    (folder / "large.csv").write_text("length,angle,gravity\n1e308,2,3\n")
    (folder / "long.csv").write_text(f"length,angle,gravity\n{'9' * (1 << 21)},2,3\n1,2,3\n")
    assert run([word.format(folder) for word in line]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
