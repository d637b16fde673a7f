"""Reads a device that dm-log-writes filled, and replays it: what a disk held at each moment at which a power cut may
have struck. Format: Linux, drivers/md/dm-log-writes.c (a super block, then an entry and its data for each write)."""

import os
import struct

MAGIC = 0x6A736677736872
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


class Entry:
    def __init__(self, number, sector, sectors, flags, text, at):
        self.number, self.sector, self.sectors, self.flags, self.text, self.at = number, sector, sectors, flags, text, at

    @property
    def is_mark(self):
        return bool(self.flags & MARK)

    @property
    def is_barrier(self):
        """What was written before it is on the disk for certain."""
        return bool(self.flags & (FLUSH | FUA))


class Log:
    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        magic, version, self.count, self.sector_bytes = SUPER.unpack(os.pread(self.file, SUPER.size, 0))
        if magic != MAGIC or version != 1:
            raise ValueError(f"{path}: no log of dm-log-writes (magic {magic:#x}, version {version})")
        self.entries = list(self._read())

    def _read(self):
        at = self.sector_bytes
        for number in range(self.count):
            block = os.pread(self.file, self.sector_bytes, at)
            sector, sectors, flags, text_bytes = ENTRY.unpack_from(block)
            text = block[ENTRY.size:ENTRY.size + text_bytes].decode(errors="replace") if flags & MARK else ""
            at += self.sector_bytes
            yield Entry(number, sector, sectors, flags, text.rstrip("\0"), at)
            if not flags & DISCARD:
                at += sectors * self.sector_bytes

    def replay(self, device, entries):
        """Writes the entries' data to an open device."""
        for entry in entries:
            left, source, target = entry.sectors * self.sector_bytes, entry.at, entry.sector * self.sector_bytes
            if entry.flags & (DISCARD | MARK):
                continue
            while left > 0:
                part = os.pread(self.file, min(left, 1 << 20), source)
                if not part:
                    raise ValueError(f"entry {entry.number}: the log ends in its data")
                os.pwrite(device, part, target)
                left, source, target = left - len(part), source + len(part), target + len(part)
