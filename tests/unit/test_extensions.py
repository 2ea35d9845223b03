"""Extensions as they are checked on the way in: the protocol's vectors, and what lies around them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.extensions import (
    BYTES_MAX,
    EXTENSIONS,
    canonical,
    canonical_update,
    merge,
    read_extensions,
)
from sitemap_store.model.extensions.codes import COUNTRIES, LANGUAGES, SCRIPTS, SHORT_LANGUAGES
from sitemap_store.model.extensions.page import WARNINGS, Page
from tests.world import BASE, START

LOC = BASE + "a"
HOUR = 3_600_000
VIDEO = {
    "thumbnail_loc": "https://cdn.example.net/t.jpg",
    "title": "T",
    "description": "D",
    "content_loc": "https://cdn.example.net/v.mp4",
}
ARTICLE = {
    "publication": {"name": "The Example", "language": "en"},
    "publication_date": "2026-09-21T12:00:00Z",  # two hours before START
    "title": "News",
}


def read(ext: object, **more: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is kept of extensions, and the warnings."""
    known: dict[str, Any] = {"loc": LOC, "now": START, "title_max": 100}
    page = Page(**known | more)
    values = read_extensions(ext, page)
    return values, page.warnings


def kept(name: str, value: object, **more: Any) -> tuple[Any, str]:
    """What is kept of one extension, and the warnings as one text."""
    values, warnings = read({name: value}, **more)
    assert set(values) <= {name}
    return values.get(name), " ".join(warnings)


def video(**fields: Any) -> tuple[Any, str]:
    """The one video that is kept of these fields over those that are needed, and the warnings."""
    found, warnings = kept("videos", VIDEO | fields)
    return (found[0] if found else None), warnings


def test_e1_an_address_is_brought_into_its_normal_form() -> None:
    """A space becomes %20; the host may be any."""
    assert kept("images", ["https://cdn.example.net/a b.jpg"]) == (["https://cdn.example.net/a%20b.jpg"], "")


def test_e2_an_image_that_is_not_absolute_is_left_out() -> None:
    """The URL stays, without the image, and the warning says how to write it."""
    found, warning = kept("images", ["/a.jpg"])
    assert found is None
    assert "/a.jpg" in warning
    assert "not absolute" in warning


def test_e3_what_search_engines_ignore_is_dropped_and_said_once() -> None:
    """The image stays; two captions are one warning."""
    images = [{"loc": f"https://x.example/{n}.jpg", "caption": "A"} for n in "ab"]
    found, warning = kept("images", images)
    assert found == ["https://x.example/a.jpg", "https://x.example/b.jpg"]
    assert warning.count("'caption'") == 1


def test_e4_a_url_has_a_thousand_images() -> None:
    """The first thousand stay."""
    found, warning = kept("images", [f"https://x.example/{n}.jpg" for n in range(1_001)])
    assert len(found) == 1_000
    assert found[-1].endswith("/999.jpg")
    assert "1,001" in warning


def test_e5_a_video_is_written_in_the_order_of_the_schema() -> None:
    """Whatever the order of the JSON."""
    found, warning = kept("videos", [dict(reversed(VIDEO.items()))])
    assert (found, warning) == ([VIDEO], "")
    assert EXTENSIONS["videos"].write(found) == (
        "<video:video><video:thumbnail_loc>https://cdn.example.net/t.jpg</video:thumbnail_loc>"
        "<video:title>T</video:title><video:description>D</video:description>"
        "<video:content_loc>https://cdn.example.net/v.mp4</video:content_loc></video:video>"
    )


def test_e6_a_video_needs_a_file_or_a_player() -> None:
    """The page itself is neither; a player alone is enough."""
    for content in (None, LOC, LOC + "#play"):
        found, warning = video(content_loc=content)
        assert found is None
        assert "content_loc or player_loc" in warning
    assert video(content_loc=None, player_loc="https://p.example/1")[0]["player_loc"] == "https://p.example/1"


@pytest.mark.parametrize(
    ("raw", "duration"),
    [(0, None), (28_801, None), ("600", 600), (12.5, None), (True, None), (28_800, 28_800)],
)
def test_e7_a_duration_is_1_to_28800_whole_seconds(raw: object, duration: int | None) -> None:
    """A wrong one is left out, and the video stays."""
    found, warning = video(duration=raw)
    assert found == (VIDEO | {"duration": duration} if duration else VIDEO)
    assert ("duration was left out" in warning) is (duration is None)


def test_e8_a_description_that_is_too_long_costs_the_video() -> None:
    """It is never cut."""
    assert video(description="d" * 2_048)[0]["description"] == "d" * 2_048
    found, warning = video(description="d" * 2_049)
    assert found is None
    assert "2,049" in warning


def test_e9_a_video_has_32_tags() -> None:
    """The first 32 stay."""
    found, warning = video(tag=[f"t{n}" for n in range(33)])
    assert found["tag"] == [f"t{n}" for n in range(32)]
    assert "33" in warning
    assert video(tag="one")[0]["tag"] == ["one"]


@pytest.mark.parametrize(
    ("raw", "rating"),
    [
        *[
            (5.1, None),
            (4.25, "4.25"),
            ("4.250", "4.25"),
            (5, "5.0"),
            (0.0, "0.0"),
            ("0", "0.0"),
            (-0.0, None),
        ],
        *[
            ("5.000", "5.0"),
            ("5.001", None),
            (1e-9, None),
            (True, None),
            ("NaN", None),
            ("٤", None),
            ("4_0", None),
        ],
    ],
)
def test_e10_a_rating_is_0_to_5(raw: object, rating: str | None) -> None:
    """Exact, and the same number is written in one way."""
    found, warning = video(rating=raw)
    assert found.get("rating") == rating
    assert ("rating was left out" in warning) is (rating is None)


@pytest.mark.parametrize(
    ("raw", "written"), [(True, "yes"), (False, "no"), ("No", "no"), ("YES", "yes"), (1, None)]
)
@pytest.mark.parametrize("name", ["family_friendly", "requires_subscription", "live"])
def test_e11_yes_and_no(name: str, raw: object, written: str | None) -> None:
    """True and false are written as words; a number is neither."""
    found, warning = video(**{name: raw})
    assert found.get(name) == written
    assert (name in warning) is (written is None)


def test_e12_countries_are_iso_codes() -> None:
    """In upper case, each once; the warning for UK names GB."""
    found, warning = video(restriction={"relationship": "allow", "countries": ["ie", "GB", "UK", "gb"]})
    assert found["restriction"] == {"relationship": "allow", "countries": ["IE", "GB"]}
    assert "'UK'" in warning
    assert "GB" in warning
    assert '<video:restriction relationship="allow">IE GB</video:restriction>' in EXTENSIONS["videos"].write(
        [found]
    )


def test_e13_text_is_escaped_once_and_keeps_its_characters() -> None:
    """Entities for five characters, everything else as it is."""
    found, warning = video(title='Tom & "Jerry" <3 😀')
    assert (found["title"], warning) == ('Tom & "Jerry" <3 😀', "")
    assert "<video:title>Tom &amp; &quot;Jerry&quot; &lt;3 😀<" in EXTENSIONS["videos"].write([found])


@pytest.mark.parametrize("bad", ["\b", "\x00", "\ufffe", "\ud800"])
def test_e14_a_title_that_xml_cannot_hold_costs_the_video(bad: str) -> None:
    """The warning names the character; the other video stays."""
    found, warning = kept("videos", [VIDEO | {"title": f"a{bad}b"}, VIDEO])
    assert found == [VIDEO]
    assert f"U+{ord(bad):04X}" in warning


@pytest.mark.parametrize(
    ("raw", "language"),
    [
        ("pt-br", None),
        ("zh-cn", "zh-cn"),
        ("ZH-TW", "zh-tw"),
        ("EN", "en"),
        ("fil", "fil"),
        ("xx", None),
        ("", None),
    ],
)
def test_e15_the_language_of_a_publication(raw: str, language: str | None) -> None:
    """Two or three letters; only Chinese has a region."""
    found, warning = kept("news", ARTICLE | {"publication": {"name": "N", "language": raw}})
    assert (found and found["publication"]["language"]) == language
    assert ("'pt'" in warning) is (raw == "pt-br")


@pytest.mark.parametrize(("age", "is_news"), [(49 * HOUR, False), (48 * HOUR, False), (48 * HOUR - 1, True)])
def test_e16_an_article_is_news_for_48_hours(age: int, is_news: bool) -> None:
    """Beyond them the URL stays without the block."""
    found, warning = kept("news", ARTICLE | {"publication_date": "2026-09-21T14:13:20Z"}, now=START + age)
    assert (found is not None) is is_news
    assert ("48 hours" in warning) is not is_news


@pytest.mark.parametrize(
    ("raw", "written", "named"),
    [
        *[("en-UK", None, "en-GB"), ("en-gb", "en-GB", ""), ("eng", None, "en"), ("en_us", None, "en-US")],
        *[
            ("zh-hant-tw", "zh-Hant-TW", ""),
            ("X-Default", "x-default", ""),
            ("DE", "de", ""),
            ("xx", None, ""),
        ],
        *[("de-Xxxx", None, ""), ("es-419", None, ""), ("sr-Latn", "sr-Latn", ""), ("", None, "")],
    ],
)
def test_e18_an_hreflang_is_written_as_bcp_47_has_it(raw: str, written: str | None, named: str) -> None:
    """A wrong one costs itself, and the warning names the right one."""
    links = [{"hreflang": "fr", "href": LOC}, {"hreflang": raw, "href": BASE + "b"}]
    found, warning = kept("alternates", links)
    assert [link["hreflang"] for link in found] == sorted(filter(None, ["fr", written]))
    assert named in warning
    assert bool(warning) is (written is None)


def test_e19_a_language_has_one_page() -> None:
    """The first of two stays."""
    links = [{"hreflang": "de", "href": LOC}, {"hreflang": "DE", "href": BASE + "b"}]
    found, warning = kept("alternates", links)
    assert found == [{"hreflang": "de", "href": LOC}]
    assert "second de" in warning


def test_e20_the_list_holds_the_page_itself() -> None:
    """Or nothing is left of it, unless the event says which language the page has."""
    links = [{"hreflang": "de", "href": BASE + "b"}]
    found, warning = kept("alternates", links)
    assert found is None
    assert LOC in warning
    found, warning = kept("alternates", links, lang="EN-gb")
    assert found == [{"hreflang": "de", "href": BASE + "b"}, {"hreflang": "en-GB", "href": LOC}]
    assert "was added as en-GB" in warning
    for lang in ("de", "klingon"):
        found, warning = kept("alternates", links, lang=lang)
        assert found is None
        assert "all were left out" in warning


def test_e21_an_unknown_extension_is_named() -> None:
    """With the known one that is nearest."""
    values, (first, second) = read({"image": [], "foo": 1})
    assert values == {}
    assert "Did you mean images?" in first
    assert "'foo'" in second


def test_e22_an_update_merges_key_by_key() -> None:
    """What it does not name stays, null removes, and an empty object says nothing."""
    images, videos = ["https://x.example/a.jpg"], [VIDEO]
    both = canonical({"videos": videos, "images": images})
    values, _ = read({"videos": None})
    update = canonical_update(values)
    assert update == '{"videos":null}'
    assert json.loads(merge(both, update)) == {"images": images}
    assert merge(canonical({"videos": videos}), update) == ""
    assert canonical_update(read({})[0]) is None
    assert merge('{"digest":"00"}', canonical_update({"images": images}) or "") == (
        '{"images":["https://x.example/a.jpg"],"digest":"00"}'
    )
    assert canonical_update(read({"images": ["/wrong.jpg"]})[0]) is None
    assert canonical_update(read({"images": []})[0]) == '{"images":null}'


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"thumbnail_loc": None}, "thumbnail_loc"),
        ({"title": "t" * 101}, "101"),
        ({"title": " \n"}, "title"),
        ({"description": 7}, "description"),
    ],
)
def test_what_a_video_needs_costs_the_video(fields: dict[str, Any], named: str) -> None:
    """And the warning says which field."""
    found, warning = video(**fields)
    assert found is None
    assert named in warning


@pytest.mark.parametrize(
    ("fields", "stored"),
    [
        ({"view_count": "12"}, {"view_count": 12}),
        ({"view_count": -1}, {}),
        ({"expiration_date": "2026"}, {}),
        ({"expiration_date": "2026-03-21T11:22+01:00"}, {"expiration_date": "2026-03-21T11:22:00+01:00"}),
        ({"publication_date": "2026-02-29"}, {}),
        ({"restriction": {"relationship": "maybe", "countries": "DE"}}, {}),
        ({"restriction": {"relationship": "deny", "countries": ["UK"]}}, {}),
        (
            {"restriction": {"relationship": "deny", "countries": "de at"}},
            {"restriction": {"relationship": "deny", "countries": ["DE", "AT"]}},
        ),
        (
            {"platform": {"relationship": "deny", "platforms": ["TV", "phone"]}},
            {"platform": {"relationship": "deny", "platforms": ["tv"]}},
        ),
        ({"uploader": "Ann"}, {"uploader": {"name": "Ann"}}),
        ({"uploader": "A" * 256}, {}),
        (
            {"uploader": {"name": "Ann", "info": BASE + "ann"}},
            {"uploader": {"name": "Ann", "info": BASE + "ann"}},
        ),
        (
            {"uploader": {"name": "Ann", "info": "https://elsewhere.example/ann"}},
            {"uploader": {"name": "Ann"}},
        ),
        ({"price": 5, "foo": 1}, {}),
        ({"title": " a\n b "}, {"title": "a b"}),
    ],
)
def test_optional_fields_of_a_video(fields: dict[str, Any], stored: dict[str, Any]) -> None:
    """In their one form, or left out with a warning."""
    found, warning = video(**fields)
    assert found == VIDEO | stored
    if not stored:
        assert "left out" in warning


@pytest.mark.parametrize("missing", ARTICLE)
def test_news_needs_all_of_it(missing: str) -> None:
    """A missing or wrong field costs the news, and nothing else."""
    for value in (None, 7, ""):
        found, warning = kept("news", ARTICLE | {missing: value})
        assert found is None
        assert f"it needs {missing}" in warning


def test_a_list_of_over_a_hundred_languages_keeps_the_page_itself() -> None:
    """Without it search engines would ignore the list."""
    regions = sorted(COUNTRIES)[:100]
    links = [{"hreflang": f"en-{region}", "href": BASE + region} for region in regions]
    found, warning = kept("alternates", [*links, {"hreflang": "de", "href": LOC}])
    assert len(found) == 100
    assert {"hreflang": "de", "href": LOC} in found
    assert "101" in warning


def test_an_extension_beyond_the_bound_is_left_out_by_name() -> None:
    """A thousand images of the longest address fit; with every character an entity they don't."""
    longest = [f"https://x.example/{n:04}".ljust(2_047, "x") for n in range(1_000)]
    found, warning = kept("images", longest)
    assert (len(found), warning) == (1_000, "")
    assert len(EXTENSIONS["images"].write(found)) <= BYTES_MAX
    found, warning = kept("images", [image.replace("x" * 99, "&" * 99) for image in longest])
    assert found is None
    assert warning.startswith("images:")


def test_warnings_are_bounded() -> None:
    """However much is wrong: the first, and how many more."""
    _, warnings = read({"images": [f"/{n}" for n in range(500)]})
    assert len(warnings) == WARNINGS + 1
    assert "480 more" in warnings[-1]


def test_codes_are_as_long_as_their_standards_say() -> None:
    """Two letters, four, two; each long language has a short one that is known."""
    assert {len(code) for code in LANGUAGES} == {2} == {len(code) for code in COUNTRIES}
    assert {len(code) for code in SCRIPTS} == {4}
    assert all(len(code) == 3 for code in SHORT_LANGUAGES)
    assert set(SHORT_LANGUAGES.values()) <= LANGUAGES


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just(LOC)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*VIDEO, *ARTICLE, "loc", "x"]), inner)
    ),
    max_leaves=9,
)


@given(st.one_of(_json, st.dictionaries(st.sampled_from([*EXTENSIONS, "x"]), _json)))
def test_any_json_is_kept_or_warned_of(ext: object) -> None:
    """Nothing raises; what is kept is kept again as it is, and is one line of text."""
    values, warnings = read(ext)
    again, _ = read(json.loads(canonical(values) or "{}"))
    assert again == {name: value for name, value in values.items() if value is not None}
    assert not set("\t\n") & set(canonical(values))
    assert all(sentence.endswith((".", "?")) and sentence.isprintable() for sentence in warnings)
