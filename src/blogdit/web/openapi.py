"""The API in the words of OpenAPI 3.1: https://spec.openapis.org."""

from __future__ import annotations

from typing import Any

import blogdit
from blogdit.finishers import FINISHERS
from blogdit.method.blocks import SELECTORS
from blogdit.web.limits import Limits


def description(limits: Limits) -> dict[str, Any]:
    errors = {
        "400": "The body is not JSON.",
        **_GUARDED,
        "413": f"More than {limits.body} bytes.",
        "415": "The body is not announced as JSON.",
        "422": "Something in it cannot be used; the message says what was expected.",
        "503": "All places for jobs are taken; Retry-After says when to come again.",
    }
    solve = {
        "summary": "Begin to solve an instance",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _question(limits)}}},
        "responses": {"202": _answer("The job, and where its events are.", _JOB), **_errors(errors)},
    }
    events = {
        "summary": "Follow a job from its first event on",
        "description": "Server-sent events `question`, `step`, `result` and `failed`; their data are the lines of a "
        "trace (docs/solving.md). A client that has gone for longer than "
        f"{limits.patience:g} s ends its job. Last-Event-ID goes on after an event.",
        "responses": {"200": {"description": "The events.", "content": {"text/event-stream": {}}}, **_errors(_MISSING)},
    }
    stop = {
        "summary": "End a job after its current step",
        "responses": {"204": {"description": "It is told to."}, **_errors(_MISSING)},
    }
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    models = {"200": _answer("A list.", {"type": "array", "items": _MODEL}), **_errors(_GUARDED)}
    health = {"200": _answer("Both.", _health()), **_errors(_OPEN)}
    itself = {"200": _answer("OpenAPI.", {"type": "object", "required": ["openapi", "paths"]}), **_errors(_GUARDED)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "blogdit", "version": blogdit.__version__, "license": {"name": "MIT", "identifier": "MIT"}},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
        "paths": {
            "/solve": {"post": solve},
            "/events/{name}": {"parameters": [name], "get": events, "delete": stop},
            "/models": {"get": {"summary": "Models that a job may name", "responses": models}},
            "/health": {"get": {"summary": "State and limits; open to all", "security": [{}], "responses": health}},
            "/openapi.json": {"get": {"summary": "This description", "responses": itself}},
        },
    }


_OPEN = {"403": "A page of another origin.", "421": "The server is called by a name that is not its own."}
_GUARDED = {"401": "The token is missing or wrong.", **_OPEN}
_MISSING = {"404": "No such job, or one that was forgotten.", **_GUARDED}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object that has exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_TEXT = {"type": "string"}
_JOB = _object({"id": _TEXT, "events": _TEXT})
_MODEL = _object(
    {
        "name": _TEXT,
        "problem": {"type": ["string", "null"], "description": "null: it is that of whatever problem is asked for."},
        "summary": _TEXT,
        "options": {"type": "object", "description": "Options of the solver that suit it."},
        "share": {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    }
)


def _health() -> dict[str, Any]:
    number = {"type": "number"}
    limits = _object(dict.fromkeys(("variables", "seconds", "steps", "chains", "body"), number))
    shown = {"type": "array", "items": {"enum": ["trace", "run"]}, "description": "What /events/NAME shows, too."}
    return _object(
        {
            "status": {"const": "ok"},
            "version": _TEXT,
            "unfinished": {"type": "integer", "description": "Jobs at work or waiting."},
            "started": {"type": "integer", "description": "Jobs since the server began."},
            "limits": limits,
            "open": shown,
            "token": {"type": "boolean", "description": "Whether a token is needed."},
        }
    )


def _answer(what: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


def _errors(errors: dict[str, str]) -> dict[str, Any]:
    return {status: _answer(what, _object({"error": _TEXT})) for status, what in errors.items()}


def _number(what: str, least: float, most: float | None = None, kind: str = "integer") -> dict[str, Any]:
    return {"type": kind, "description": what, "minimum": least} | ({} if most is None else {"maximum": most})


def _question(limits: Limits) -> dict[str, Any]:
    options = {
        "seed": _number("The same seed and budget in steps give the same run.", 0),
        "steps": _number("Steps of the sampler; then a finisher does a fixed amount of work.", 0, limits.steps),
        "time_limit": _number("Seconds.", 0, limits.seconds, "number"),
        "target": {"type": "number", "description": "Stop at an objective this good."},
        "first_feasible": {"type": "boolean", "description": "Stop at the first valid answer."},
        "chains": _number("Chains of the sampler.", 1, limits.chains),
        "block": {"type": "string", "enum": list(SELECTORS)},
        "schedule": {"type": "string", "enum": ["cycle", "budget"]},
        "cycle": _number("Steps before a stuck chain is reheated.", 1),
        "finish": {"type": "string", "enum": ["auto", "none", *FINISHERS]},
        "finish_share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "oneOf": [{"required": ["text"]}, {"required": ["instance"]}],
        "properties": {
            "text": {"type": "string", "description": "A file of a known format, or (name ends in .py) a CPMpy model."},
            "instance": {"type": "object", "description": "An instance in the JSON format of blogdit."},
            "name": {"type": "string", "description": "Its suffix may tell the format of the text."},
            "problem": {"type": "string", "description": "For graphs: coloring, maxcut or mis."},
            "colors": _number("To colour a graph with.", 1),
            "model": {"type": "string", "description": "One of /models; else that of the problem."},
            "share": {
                "type": "array",
                "description": "Share of the variables in a block: [at the start of a cycle, at its end].",
                "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                "minItems": 2,
                "maxItems": 2,
            },
            "options": {"type": "object", "additionalProperties": False, "properties": options},
        },
    }
