/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The style sheet of a page: light and dark by the reader's preference, one column on a narrow
 * screen. Colours are told apart by lightness too, and what is refused or undecided is hatched.
 */
#include "report_html.h"

const char *const rsum_html_style[] = {
	/* colours */
	":root{color-scheme:light dark;--bg:#fff;--fg:#1c2127;--dim:#5b6570;--line:#d5dae0;"
	"--panel:#f5f7f9;--p:#2f9473;--r:#b3201a;--u:#a86a00;--n:#8d97a1;--h:#b9c1c9;"
	"--hatch:#fff9;--okbg:#e4f4ec;--okfg:#0f5c43;--nobg:#fdeae8;--nofg:#93150f;"
	"--maybg:#fff3dc;--mayfg:#6d4500;--tipbg:#1c2127;--tipfg:#fff}\n"
	"@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e9ec;--dim:#9aa4ae;"
	"--line:#343b42;--panel:#1d2125;--p:#3a9c7b;--r:#ff7a6b;--u:#f0b440;--n:#6d7781;"
	"--h:#4b545d;--hatch:#0008;--okbg:#12352a;--okfg:#8fe0bf;--nobg:#43191a;"
	"--nofg:#ffb3aa;--maybg:#3d2e0c;--mayfg:#ffd98a;--tipbg:#e6e9ec;--tipfg:#14171a}}\n",
	/* the page */
	"*{box-sizing:border-box}body{margin:0 auto;padding:1.25rem;max-width:80rem;"
	"background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,-apple-system,"
	"\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}\n"
	"h1,h2,h3,h4,p,dl,dd,table{margin:0}article{margin-top:1rem}article+article{margin-top:"
	"4rem}h2{font-size:1.15rem;overflow-wrap:anywhere}"
	"h3{font-size:1.1rem;margin:2rem 0 .6rem}h4{font-size:.95rem;overflow-wrap:anywhere}"
	"code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\","
	"monospace;font-size:.86em;overflow-wrap:anywhere}\n"
	"a{color:inherit}.dim{color:var(--dim);font-size:.9rem;font-weight:400}"
	"footer{margin-top:3rem;padding-top:.75rem;border-top:1px solid var(--line)}\n"
	".verdict{display:flex;gap:1rem;align-items:center;padding:1rem 1.25rem;"
	"border-radius:.6rem;border:2px solid}.verdict .sign{font-size:2.2rem;line-height:1;"
	"font-weight:700}.verdict h1{font-size:1.5rem;line-height:1.25}"
	".verdict p{overflow-wrap:anywhere}\n"
	".identical{background:var(--okbg);color:var(--okfg);border-color:var(--okfg)}"
	".refused{background:var(--nobg);color:var(--nofg);border-color:var(--nofg)}"
	".undecided{background:var(--maybg);color:var(--mayfg);border-color:var(--mayfg)}\n"
	".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));"
	"gap:.75rem;margin:1rem 0}.tiles div{background:var(--panel);border:1px solid "
	"var(--line);border-radius:.6rem;padding:.6rem .9rem}.tiles b{display:block;"
	"font-size:1.35rem;line-height:1.3;font-variant-numeric:tabular-nums}"
	".tiles div>span{color:var(--dim);font-size:.85rem}\n"
	".facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.25rem}"
	".facts dt{color:var(--dim)}.facts dd{overflow-wrap:anywhere;min-width:0}\n",
	/* tables */
	"table{width:100%;border-collapse:collapse}th{text-align:left;color:var(--dim);"
	"font-weight:600;font-size:.85rem}th,td{padding:.55rem .75rem .55rem 0;vertical-align:top;"
	"border-bottom:1px solid var(--line)}tr:target td{background:var(--maybg)}"
	"td{overflow-wrap:anywhere}td.what{white-space:nowrap;width:1%}td.where{width:34%}"
	".badge{display:inline-block;padding:.05rem .5rem;border-radius:1rem;border:1px solid;"
	"font-size:.82rem;font-weight:600}.small{display:block;color:var(--dim);"
	"font-size:.88rem}summary{cursor:pointer;padding:.55rem 0;font-weight:600}\n",
	/* the map */
	"h4 "
	".dim{white-space:nowrap}.legend{margin-bottom:.3rem;display:flex;flex-wrap:wrap;gap:."
	"35rem 1.1rem;align-items:center}"
	".legend span{display:inline-flex;gap:.35rem;align-items:center}\n"
	".shard{margin:.9rem 0;padding:.7rem .9rem;border:1px solid var(--line);"
	"border-radius:.6rem;content-visibility:auto;contain-intrinsic-size:auto 9rem}"
	".clean{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(24rem,100%),1fr));"
	"gap:.75rem;margin-top:.9rem}.clean .shard{margin:0}"
	".clean:has(>:only-child){display:block}\n"
	".counts{display:flex;flex-wrap:wrap;gap:.15rem .9rem;font-size:.9rem}"
	".kr{color:var(--nofg);font-weight:600}.ku{color:var(--mayfg);font-weight:600}"
	".kp{color:var(--dim)}.why{font-size:.9rem;overflow-wrap:anywhere}\n"
	".bar{display:flex;height:.8rem;margin:.45rem 0;border-radius:.2rem;overflow:hidden;"
	"background:var(--panel);outline:1px solid var(--line)}.bar i{flex:1 1 0;min-width:0}"
	".bar .r,.bar .u{min-width:4px}\n"
	".cells{display:flex;flex-wrap:wrap;gap:1px}.cells i,.cells a,.legend i{display:block;"
	"height:14px;width:6px;border-radius:1px}"
	".p{background:var(--p)}.h{background:var(--h)}"
	".r{background:repeating-linear-gradient(45deg,var(--hatch) 0 1.5px,transparent 1.5px 4px)"
	" var(--r)}"
	".u{background:radial-gradient(var(--hatch) 1px,transparent 1.5px) 0 0/4px 4px var(--u)}"
	".n{background:repeating-linear-gradient(90deg,transparent 0 2px,var(--n) 2px 3px)}"
	".cells .n,.legend .n{outline:1px solid var(--n);outline-offset:-1px}\n"
	".cells .r,.cells .u{outline:1px solid;outline-color:var(--r)}.cells .u{"
	"outline-color:var(--u)}"
	".cells .w1,.legend .w1{width:7px}.cells .w2,.legend .w2{width:9px}.cells .w3{width:13px}"
	".cells .w4{width:20px}.cells .w5{width:32px}\n"
	".cells :hover,.cells :focus{outline:2px solid var(--fg);outline-offset:0;z-index:1}"
	".cells [data-t]:hover::after,.cells [data-t]:focus::after{content:attr(data-t);"
	"position:fixed;left:0;right:0;bottom:0;z-index:9;padding:.6rem 1.25rem;"
	"background:var(--tipbg);color:var(--tipfg);overflow-wrap:anywhere;"
	"font-family:ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;"
	"font-size:.85rem;unicode-bidi:isolate;pointer-events:none}\n",
	/* the curve, narrow screens, paper */
	".curve{display:block;width:100%;height:8rem;background:var(--panel);"
	"border:1px solid var(--line);border-radius:.3rem}.area{fill:var(--p)}"
	".mean{stroke:var(--fg);stroke-width:2;stroke-dasharray:6 5;fill:none;"
	"vector-effect:non-scaling-stroke}.axis{display:flex;flex-wrap:wrap;"
	"justify-content:space-between;gap:0 1rem;font-size:.9rem;color:var(--dim)}\n"
	"@media(max-width:44rem){body{padding:.75rem}.facts{grid-template-columns:1fr;gap:0}"
	".facts dd{margin-bottom:.5rem}thead{display:none}table,tbody,tr,td{display:block}"
	"td,td.what,td.where{width:auto;border:0;padding:.1rem 0}tr{padding:.6rem 0;"
	"border-bottom:1px solid var(--line)}.tiles{grid-template-columns:1fr 1fr;gap:.5rem}"
	".verdict{padding:.75rem}}\n"
	"@media print{.shard{break-inside:avoid}body{max-width:none}}\n",
	NULL,
};
