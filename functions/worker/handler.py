"""A placeholder."""


def handle(event: dict, context: object) -> dict:
    return {"statusCode": 200, "body": "ok"}
