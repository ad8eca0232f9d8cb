# The command line without the local service. Built by the release workflow in the folder with the packed packages:
#   docker build --file packaging/docker/client.Dockerfile --tag sealpin dist/release
FROM node:24.21.0-trixie-slim
COPY sealpin-[0-9]*.tgz /tmp/
# It has no dependencies, so that nothing is downloaded.
RUN npm install --global --offline --ignore-scripts --no-audit --no-fund /tmp/sealpin-[0-9]*.tgz \
  && rm /tmp/sealpin-*.tgz \
  && install --directory --owner=node --group=node --mode=0700 /data
ENV SEALPIN_HOME=/data
VOLUME /data
USER node
WORKDIR /files
ENTRYPOINT ["sealpin"]
CMD ["--help"]
