"""Hooks: actions of a repository that run before and after its changes.

    gate                   the port of the engine (engine/hooks.py); start here
    action_files, actions  the actions of a commit; one action file: which events, which hooks
    yaml_text              YAML as plain values, within bounds
    runs                   all hooks of one event, their record and their logs
    calls                  one hook: a webhook, or a run of Airflow
    payloads               what a hook is sent
    egress                 the requests that leave the service
    function, envelopes    the same by way of a function of its own, on AWS; its requests and
                           answers
    deployment             the hooks of a deployment
    run_pages              runs, as clients read them

Used by the job worker, the service, the commands and the functions.
"""
