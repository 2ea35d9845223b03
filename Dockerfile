# The service as an image: `docker build -t sitemapd .`

FROM python:3.11-slim AS build

# Everything in the versions that the tests ran with; pip checks the hash of each file.
WORKDIR /src
COPY requirements.lock .
RUN python -m venv /opt/sitemapd \
    && /opt/sitemapd/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY . .
RUN /opt/sitemapd/bin/pip install --no-cache-dir --no-deps --no-build-isolation .


FROM python:3.11-slim

# A number, so that Kubernetes' runAsNonRoot can see that it is not root.
RUN groupadd --gid 10001 sitemapd \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin sitemapd \
    && install --directory --owner=10001 --group=10001 \
        /var/lib/sitemapd /var/lib/sitemapd/data /var/lib/sitemapd/public

COPY --from=build /opt/sitemapd /opt/sitemapd
ENV PATH=/opt/sitemapd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

USER 10001:10001
WORKDIR /var/lib/sitemapd
EXPOSE 8321

# For the commands that answer HTTP (`serve`, `run`). Give the others their own, as docker-compose.yml does.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/readyz', timeout=4)"]

ENTRYPOINT ["sitemapd"]
CMD ["--help"]
