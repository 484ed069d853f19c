"""Imports much of the standard library: nearly every allocation comes by a way of its own."""
import asyncio  # noqa: F401
import concurrent.futures  # noqa: F401
import ctypes  # noqa: F401
import dataclasses  # noqa: F401
import decimal  # noqa: F401
import difflib  # noqa: F401
import email.mime.multipart  # noqa: F401
import http.server  # noqa: F401
import json
import logging.config  # noqa: F401
import multiprocessing  # noqa: F401
import sqlite3  # noqa: F401
import unittest.mock  # noqa: F401
import urllib.request  # noqa: F401
import xml.dom.minidom  # noqa: F401

# What the imported modules are for, some 30 times: a program that works has its ways again and again.
for _ in range(30):
    document = xml.dom.minidom.parseString("<a>" + "<b c='d'>text</b>" * 200 + "</a>")
    text = json.dumps([{"name": node.tagName, "value": str(decimal.Decimal(at) / 7)}
                       for at, node in enumerate(document.getElementsByTagName("b"))])
    list(difflib.unified_diff(text[:2000].split(","), text[1000:3000].split(",")))
