"""The commands of the console script `graveler`.

    overview                              the table of all commands, `graveler --help`; start here
    entry, main                           the console script: finds the command and runs it; exit
                                          codes
    command, arguments, options           classes of commands; arguments that several commands take
    invocation, state                     one call: its options, profile, session; what calls
                                          remember
    output, progress, tally               tables, JSON, colours, pages; progress; counts
    failures, hints, absence              exit codes; commands that messages name; what was not
                                          found
    mistakes, words                       names that a server refuses; words of other tools
    address, moments, past                what addresses and times mean
    profiles, keyring_store               profiles and where their secrets lie
    completion, completion_command        completion by asking the server; the scripts for shells
    shells, plugins, lakectl              how shells ask; programs as commands; lakectl's commands
    interrupts, wait                      delays Ctrl-C; waits for a job

Commands of a client, a module a group:
    repo, branch, tag                      repositories, branches and tags
    change, branch_protect                 new commits and merges; branch protection rules
    pr, restore, bisect, annotate          pull requests; old content; which commit brought what
    history, graph, differences, rows      commits; what differs, by path and by row
    objects, files, filters                objects; which paths a command is about
    transfer, transfer_tasks               many items at once; their queue
    transfer_options, mirror               what `upload`, `download`, `cp` and `mv` share besides
    uploads, upload_parts, upload_journal  uploads, in parts, continued
    downloads, copies, moves               the other transfers
    import_command, refs, retention        imports; dumps of refs; retention rules
    local, local_folder, folder_records    a folder in step with a branch
    jobs, actions, events, watch           the background, hooks, event rules, what happens now
    user, user_group, policy, auth         who may do what
    api, audit, usage                      any request; the audit trail; requests by month
    doctor, open_command                   why a command would fail; the page of an address
    account, config                        signs in and out; profiles
    journal, undo                          the heads that this client moved; puts them back

Commands of a store, and what they do:
    serve_command, store_commands       their arguments
    gc, gateway                         collections; the arguments of `graveler gateway`
    serve, service, host, listener      serves a store: the application on a port
    s3_service                          serves S3 clients from a deployment on AWS
    quiet_start, heap                   the start and the memory of a process that serves
    descriptors, logs                   its open files and its log
    stores, subject, sweeps             opens a store; what a command tends; periodic work
    administrator, credentials, verify  the administrator; keys; checks of a store
    demo, sample, story                 `make run`: a sample lake

Client commands import nothing of the engine.  Layer 4: may import every lower layer; no other
package imports it.
"""
