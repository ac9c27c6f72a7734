"""A folder in step with a prefix of a branch: `graveler local`.

Read in this order:

    entries  what is compared: an entry of a listing, a file of the folder, a step of a plan
    ports    the interfaces: the folder, the shelf for files in motion, the server
    compare  the changes of the folder, and three-way comparison; pure
    names    which paths of a branch can be files, for downloads too; pure
    ignore   `.gravelerignore`; pure
    work     opens a linked folder: base, changes, what an interrupted operation left
    sync     clone, init, pull and checkout: a plan, its journal, and the way back
    commit   the changes of the folder as a commit
    unstage  what an interrupted commit left on the branch
    state    the file `.lakefs_ref.yaml`
    records  the database of a linked folder: base, cache of checksums, journal
    disk     the folder and the shelf on a disk
    server   the server, over the Python client
    git      the section of `.gitignore`, and the commit of Git

lakectl may work in the same folder: the state file and the metadata of objects are its own.  Only
the commands import this.
"""
