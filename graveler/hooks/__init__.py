"""Hooks: actions of a repository that run before and after its changes.

    gate.py            the port of the engine (engine/hooks.py)
    action_files.py    the actions of a commit
    actions.py         one action file: which events, which hooks
    yaml_text.py       YAML as plain values, within bounds
    runs.py            all hooks of one event, their record and their logs
    calls.py           one hook: a webhook, or a run of Airflow
    payloads.py        what a hook is sent
    egress.py          the requests that leave the service
    function.py        the same by way of a function of its own, on AWS
    envelopes.py       a request on its way to this function, and its answer
    deployment.py      the hooks of a deployment
    run_pages.py       runs, as clients read them

Read gate.py first.  Used by the job worker, the service, the commands and the functions.
"""
