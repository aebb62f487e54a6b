# The service: docker build --tag isonomy . ; how to run it is in docs/how-to/service.md.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

COPY pyproject.toml constraints.txt README.md LICENSE NOTICE /source/
COPY src /source/src
RUN pip install --constraint /source/constraints.txt "/source[serve,sign,postgres]" \
    && rm -r /source \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin isonomy \
    && install --directory --owner isonomy --group isonomy --mode 0700 /log

USER isonomy
WORKDIR /home/isonomy
VOLUME /log
EXPOSE 8000

# The name of loopback is one that the service always answers to.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/ready', timeout=4)"]

ENTRYPOINT ["isonomy", "serve", "--certificate", "/certificate", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--log", "/log", "--keys", "/run/secrets/isonomy-keys"]
