# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# open_page.py BROWSER PAGE CHECKS.js WIDTH-SCHEME...: opens a page of a report at
# each width, dark or light, and runs the checks in it, which throw. The page
# says what came of them in an element, which the browser prints.

import html
import os
import re
import subprocess
import sys
import tempfile

browser, page, checks = sys.argv[1:4]

HARNESS = """<script>
window.told = [];
addEventListener('error', event => told.push('error: ' + event.message));
addEventListener('securitypolicyviolation', event => told.push('blocked: ' + event.blockedURI));
</script>"""
RUN = """<script>
setTimeout(() => {
  try { CHECKS } catch (error) { told.push(String(error.stack || error)); }
  const out = document.createElement('pre');
  out.id = 'told';
  out.textContent = told.length ? told.join('\\n') : 'all is well';
  document.body.append(out);
}, 300);
</script>"""


def opened(width, scheme, folder):
    text = open(page, encoding="utf-8").read()
    text = text.replace("<head>", "<head>" + HARNESS, 1)
    run = RUN.replace("CHECKS", open(checks, encoding="utf-8").read())
    text = text.replace("</body>", run + "</body>", 1)
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu"]
    command += ["--virtual-time-budget=4000", f"--window-size={width},900"]
    command += [f"--user-data-dir={folder}/profile", "--hide-scrollbars"]
    number = {"dark": 0, "light": 1}[scheme]
    command += [f"--blink-settings=preferredColorScheme={number}"]
    done = subprocess.run(
        command + ["--dump-dom", "file://" + path],
        capture_output=True,
        text=True,
        timeout=240,
    )
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
    return html.unescape(found.group(1)) if found else "no answer: " + done.stderr[-2000:]


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    for view in sys.argv[4:]:
        told = opened(*view.split("-"), folder)
        print(f"{view}: {told}")
        if told != "all is well":
            sys.exit(1)
