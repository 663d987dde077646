# Fluvio's own release binaries: the cluster's two servers (fluvio-run sc, fluvio-run spu) and the command line that registers
# the one with the other. The client in highwater is 0.50.1, which goes with platform 0.18.
FROM debian:bookworm-slim
ARG FLUVIO_VERSION=0.18.1
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl unzip \
    && cd /usr/local/bin \
    && for name in fluvio fluvio-run; do \
         curl -fsSL -o "$name.zip" "https://github.com/fluvio-community/fluvio/releases/download/v${FLUVIO_VERSION}/$name-$(uname -m)-unknown-linux-musl.zip" \
         && unzip -q -o "$name.zip" "$name" && chmod 0755 "$name" && rm "$name.zip" || exit 1; \
       done \
    && apt-get purge -y --auto-remove curl unzip && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10002 --create-home --home-dir /fluvio fluvio \
    && install -d -o fluvio -g fluvio /fluvio/metadata /fluvio/data
USER 10002:10002
WORKDIR /fluvio
