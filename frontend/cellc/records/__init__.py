"""Files of records: MindRecord, written and read, and TFRecord, read. See `format`."""
