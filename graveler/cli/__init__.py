"""The commands of the console script `graveler`.

    overview      the table of all commands, `graveler --help`; start here
    entry, main   the console script: finds the command and runs it; exit codes
    command       classes of commands
    arguments     arguments and options that several commands take
    invocation    one call: its options, profile, session and questions
    output        tables, TSV, JSON, colours, pages
    failures      exit codes and the shape of errors
    hints         the commands that messages name, for the server of the call
    address, moments, profiles, completion

    repo branch tag change account                         a module a group of client commands
    objects uploads downloads copies moves import_command  objects; transfer, progress, tally,
                                                           files: what is transferred
    history differences                                    commits; what differs, and its print
    local local_folder                                     a folder in step with a branch
    serve_command store_commands gc events                 arguments of commands of a store
    serve service demo verify credentials ...              what they do

Client commands import nothing of the engine.  Layer 4: may import every lower layer; no other
package imports it.
"""
