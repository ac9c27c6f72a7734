"""`graveler credentials reset`: new credentials for the administrator of a store."""

from graveler.cli import administrator
from graveler.cli.administrator import Saved
from graveler.cli.options import CredentialsOptions
from graveler.cli.stores import opened
from graveler.records import ABSENT


def reset(options: CredentialsOptions) -> int:
    """Make them and print them once; a file that keeps the old ones is written anew."""
    with opened(options.store) as store:
        saved = administrator.read(options.store)
        credential = administrator.renew(store)
        print(f"access_key_id: {credential.access_key_id}")
        print(f"secret_access_key: {credential.secret_access_key}")
        if options.save or saved is not ABSENT:
            url = saved.url if saved is not ABSENT else ""
            path = administrator.write(options.store, Saved(url, credential))
            print(f"kept in {path}")
    return 0
