"""As much of OpenAI's Python library as llama.cpp's server tests use: bodies go out as they are, answers are read by attribute, absent fields are None."""
import base64
import json
import struct

import requests


class Thing(dict):
    def __getattr__(self, name):
        if name == "output_text" and name not in self:
            return "".join(p.text for item in self.output for p in (item.content or []) if p.type == "output_text")
        return self.get(name)


def read(text):
    return json.loads(text, object_hook=Thing)


class APIError(Exception):
    pass


class Endpoint:
    def __init__(self, client, path):
        self.client, self.path = client, path

    def create(self, **body):
        embeddings = self.path == "embeddings"
        if embeddings:
            body.setdefault("encoding_format", "base64")  # as the library does
        answer = requests.post(f"{self.client.base_url}/{self.path}", json=body, stream=body.get("stream", False),
                               headers={"Authorization": f"Bearer {self.client.api_key}"})
        if answer.status_code != 200:
            raise APIError(f"{answer.status_code} {answer.text}")
        if body.get("stream"):
            return self.events(answer)
        out = read(answer.text)
        for row in out.data if embeddings else []:
            if isinstance(row.embedding, str):
                bytes_ = base64.b64decode(row.embedding)
                row["embedding"] = list(struct.unpack(f"{len(bytes_) // 4}f", bytes_))
        return out

    @staticmethod
    def events(answer):
        for line in answer.iter_lines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield read(line[6:])


class Group:
    pass


class OpenAI:
    def __init__(self, api_key, base_url):
        self.api_key, self.base_url = api_key, base_url.rstrip("/")
        self.chat = Group()
        self.chat.completions = Endpoint(self, "chat/completions")
        self.completions = Endpoint(self, "completions")
        self.responses = Endpoint(self, "responses")
        self.embeddings = Endpoint(self, "embeddings")
