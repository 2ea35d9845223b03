"""Codes of languages (ISO 639-1), scripts (ISO 15924) and countries (ISO 3166-1), and hreflang of them."""

from __future__ import annotations

import re
from typing import Final

_LANGUAGES: Final = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr
ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_COUNTRIES: Final = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT
BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH
ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT
HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS
LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI
NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG
SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG
UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW
"""
_SCRIPTS: Final = """
Adlm Afak Aghb Ahom Arab Aran Armi Armn Avst Bali Bamu Bass Batk Beng Bhks Blis Bopo Brah Brai Bugi
Buhd Cakm Cans Cari Cham Cher Chrs Cirt Copt Cpmn Cprt Cyrl Cyrs Deva Diak Dogr Dsrt Dupl Egyd Egyh
Egyp Elba Elym Ethi Gara Geok Geor Glag Gong Gonm Goth Gran Grek Gujr Gukh Guru Hanb Hang Hani Hano
Hans Hant Hatr Hebr Hira Hluw Hmng Hmnp Hrkt Hung Inds Ital Jamo Java Jpan Jurc Kali Kana Kawi Khar
Khmr Khoj Kitl Kits Knda Kore Kpel Krai Kthi Lana Laoo Latf Latg Latn Leke Lepc Limb Lina Linb Lisu
Loma Lyci Lydi Mahj Maka Mand Mani Marc Maya Medf Mend Merc Mero Mlym Modi Mong Moon Mroo Mtei Mult
Mymr Nagm Nand Narb Nbat Newa Nkdb Nkgb Nkoo Nshu Ogam Olck Onao Orkh Orya Osge Osma Ougr Palm Pauc
Pcun Pelm Perm Phag Phli Phlp Phlv Phnx Piqd Plrd Prti Psin Ranj Rjng Rohg Roro Runr Samr Sara Sarb
Saur Sgnw Shaw Shrd Shui Sidd Sind Sinh Sogd Sogo Sora Soyo Sund Sunu Sylo Syrc Syre Syrj Syrn Tagb
Takr Tale Talu Taml Tang Tavt Telu Teng Tfng Tglg Thaa Thai Tibt Tirh Tnsa Todr Tols Toto Tutg Ugar
Vaii Visp Vith Wara Wcho Wole Xpeo Xsux Yezi Yiii Zanb Zmth Zsye Zsym
"""
_LONG: Final = """
ara ar ben bn bul bg cat ca ces cs cze cs dan da deu de dut nl ell el eng en est et fas fa fin fi fra fr
fre fr ger de gre el heb he hin hi hrv hr hun hu ind id ita it jpn ja kor ko lav lv lit lt nld nl nor no
per fa pol pl por pt ron ro rum ro rus ru slk sk slo sk slv sl spa es srp sr swe sv tha th tur tr ukr uk
urd ur vie vi zho zh chi zh
"""
LANGUAGES: Final = frozenset(_LANGUAGES.split())
COUNTRIES: Final = frozenset(_COUNTRIES.split())
SCRIPTS: Final = frozenset(_SCRIPTS.split())
SHORT_LANGUAGES: Final = dict(zip(_LONG.split()[::2], _LONG.split()[1::2], strict=True))
"""The two letters of languages that are often written with three."""
_HREFLANG: Final = re.compile(r"([A-Za-z]{2})(?:-([A-Za-z]{4}))?(?:-([A-Za-z]{2}))?")


def is_hreflang(text: str) -> bool:
    """Whether a text names a language with an optional script and region, or is `x-default`; in any case."""
    return text.lower() == "x-default" or written_hreflang(text) is not None


def written_hreflang(text: str) -> str | None:
    """A language with an optional script and region as BCP 47 writes it (`zh-Hant-TW`); None for no such."""
    match = _HREFLANG.fullmatch(text)
    if match is None:
        return None
    language, script, region = match[1].lower(), (match[2] or "").title(), (match[3] or "").upper()
    known = language in LANGUAGES and (not script or script in SCRIPTS)
    if not known or (region and region not in COUNTRIES):
        return None
    return "-".join(filter(None, (language, script, region)))
