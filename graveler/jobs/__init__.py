"""Work that outlives a request: handed to a queue, run by a worker, waited for or asked after."""
