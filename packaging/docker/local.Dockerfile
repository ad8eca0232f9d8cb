# The command line with the service on this machine (`sealpin start`). Built by the release workflow, beside client.Dockerfile:
#   docker build --file packaging/docker/local.Dockerfile --tag sealpin-local dist/release
FROM node:24.21.0-trixie-slim
# Without CA certificates, which the slim base lacks, workerd does not start.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/*
COPY sealpin-[0-9]*.tgz sealpin-local-[0-9]*.tgz /tmp/
# Miniflare, workerd and esbuild come from the registry of npm, in the versions that @sealpin/local names.
RUN npm install --global --ignore-scripts --no-audit --no-fund /tmp/sealpin-[0-9]*.tgz /tmp/sealpin-local-[0-9]*.tgz \
  && rm /tmp/sealpin-*.tgz \
  && install --directory --owner=node --group=node --mode=0700 /data
ENV SEALPIN_HOME=/data
VOLUME /data
USER node
WORKDIR /files
STOPSIGNAL SIGTERM
ENTRYPOINT ["sealpin"]
CMD ["start"]
