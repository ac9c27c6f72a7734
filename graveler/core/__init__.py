"""What every other package uses: records, ids, errors, limits, time, codecs."""
