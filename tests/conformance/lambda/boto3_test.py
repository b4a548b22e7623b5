#!/usr/bin/env python3
"""Debian's boto3 against a real server: S3, and botocore's signer (which sends no content hash) on Lambda's paths.
Started by boto3.test.mjs with the directory of the server."""
import json
import os
import sys
import unittest
import urllib.error
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.client
import botocore.credentials
import botocore.exceptions

DIRECTORY = sys.argv.pop(1)
with open(os.path.join(DIRECTORY, "credentials.json"), encoding="utf-8") as file:
    KEYS = json.load(file)
with open(os.path.join(DIRECTORY, "server.json"), encoding="utf-8") as file:
    URL = json.load(file)["url"]


def client(name, **extra):
    return boto3.client(name, endpoint_url=URL, region_name="eu-local-1", aws_access_key_id=KEYS["accessKeyId"],
                        aws_secret_access_key=KEYS["secretAccessKey"], **extra)


def signed(method, path, body=None, secret=None, expires=None):
    """A request signed by botocore for the service `lambda`, sent as it is."""
    credentials = botocore.credentials.Credentials(KEYS["accessKeyId"], secret or KEYS["secretAccessKey"])
    request = botocore.awsrequest.AWSRequest(method=method, url=URL + path, data=body)
    if expires:
        botocore.auth.SigV4QueryAuth(credentials, "lambda", "eu-local-1", expires=expires).add_auth(request)
    else:
        botocore.auth.SigV4Auth(credentials, "lambda", "eu-local-1").add_auth(request)
    prepared = request.prepare()
    assert "X-Amz-Content-SHA256" not in prepared.headers
    sent = urllib.request.Request(prepared.url, data=body, method=method, headers=dict(prepared.headers))
    try:
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return answer.status, json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), error.headers


class Signer(unittest.TestCase):
    def test_lists(self):
        status, answer, _ = signed("GET", "/2025-09-09/microvms?maxResults=2")
        self.assertEqual((status, answer), (200, {"items": []}))

    def test_arn_in_path(self):
        status, answer, headers = signed(
            "GET", "/2025-09-09/microvm-images/arn%3Aaws%3Alambda%3Aeu-local-1%3A" + KEYS["accountId"] + "%3Amicrovm-image%3Anone")
        self.assertEqual((status, headers["x-amzn-errortype"]), (404, "ResourceNotFoundException"), answer)

    def test_body(self):
        status, answer, _ = signed("POST", "/2025-09-09/microvms", b'{"imageIdentifier":"none"}')
        self.assertEqual(status, 404, answer)

    def test_changed_body(self):
        status, answer, headers = signed("GET", "/2025-09-09/microvms", secret="x" * 40)
        self.assertEqual((status, headers["x-amzn-errortype"]), (403, "InvalidSignatureException"), answer)

    def test_presigned(self):
        status, answer, _ = signed("GET", "/2025-09-09/microvms", expires=60)
        self.assertEqual((status, answer), (200, {"items": []}))


class Sts(unittest.TestCase):
    def test_identity(self):
        self.assertEqual(client("sts").get_caller_identity()["Account"], KEYS["accountId"])


class S3(unittest.TestCase):
    def setUp(self):
        self.s3 = client("s3", config=botocore.client.Config(s3={"addressing_style": "path"}))
        self.s3.create_bucket(Bucket="boto", CreateBucketConfiguration={"LocationConstraint": "eu-local-1"})

    def tearDown(self):
        for item in self.s3.list_objects_v2(Bucket="boto").get("Contents", []):
            self.s3.delete_object(Bucket="boto", Key=item["Key"])
        self.s3.delete_bucket(Bucket="boto")

    def test_round_trip(self):
        for key in ["plain", "with space+plus", "ünïcode/ключ", "a//b'(1)*!"]:
            self.s3.put_object(Bucket="boto", Key=key, Body=b"hello", Metadata={"who": "me"})
            got = self.s3.get_object(Bucket="boto", Key=key, Range="bytes=1-3")
            self.assertEqual((got["Body"].read(), got["Metadata"]), (b"ell", {"who": "me"}))
        names = [item["Key"] for item in self.s3.list_objects_v2(Bucket="boto")["Contents"]]
        self.assertEqual(len(names), 4)
        self.assertIn("ünïcode/ключ", names)

    def test_upload_file_in_parts(self):
        path = os.path.join(DIRECTORY, "boto-file")
        with open(path, "wb") as out:
            for i in range(20):
                out.write(bytes([i]) * (1 << 20))
        self.s3.upload_file(path, "boto", "file")
        self.s3.download_file("boto", "file", path + ".back")
        with open(path, "rb") as one, open(path + ".back", "rb") as two:
            self.assertTrue(one.read() == two.read())

    def test_presigned(self):
        self.s3.put_object(Bucket="boto", Key="link", Body=b"hello")
        old = client("s3", config=botocore.client.Config(signature_version="s3v4", s3={"addressing_style": "path"}))
        url = old.generate_presigned_url("get_object", Params={"Bucket": "boto", "Key": "link"}, ExpiresIn=60)
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.assertEqual(answer.read(), b"hello")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url.replace("/link?", "/other?"), timeout=30)
        self.assertEqual(refused.exception.code, 403)

    def test_missing(self):
        with self.assertRaises(botocore.exceptions.ClientError) as refused:
            self.s3.get_object(Bucket="boto", Key="none")
        self.assertEqual(refused.exception.response["Error"]["Code"], "NoSuchKey")


if __name__ == "__main__":
    unittest.main(verbosity=2)
