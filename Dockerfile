# The demo: docker build -t gassip . && docker run --rm -v "$PWD/runs:/home/gassip/runs" gassip
# Another command: docker run --rm gassip doctor
FROM python:3.11-slim

RUN useradd --create-home gassip
WORKDIR /home/gassip
# torch first and exactly. Its usual build brings CUDA along: for a small image name the index of its CPU builds,
# docker build --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL=""
RUN pip install --no-cache-dir torch==2.13.0
COPY pyproject.toml README.md LICENSE ./source/
COPY src ./source/src
RUN pip install --no-cache-dir ./source && rm -r source

USER gassip
ENTRYPOINT ["gassip"]
CMD ["search", "--out", "runs/demo", "--overwrite"]
