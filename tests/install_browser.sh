#!/bin/sh
# Chromium for the tests of the report page; without it, they are skipped and say so.
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        exit 0
    fi
done
if ! command -v apt-get >/dev/null 2>&1; then
    echo "No Chromium, and no apt-get to install it: the browser tests will be skipped."
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "No Chromium, and only root may install it (apt-get install chromium): the browser tests will be skipped."
    exit 0
fi
echo "Installing Chromium for the browser tests."
log=$(mktemp)
if ! (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium) >"$log" 2>&1; then
    tail -n 3 "$log"
    echo "Chromium could not be installed: the browser tests will be skipped."
fi
rm -f "$log"
exit 0
