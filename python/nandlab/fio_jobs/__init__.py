"""Job files of fio on a simulated device.

`job_file` reads them, `options` says what becomes of each key, `jobs` makes studies of kind `jobs`
of them, `measured` takes the results apart by process, and `json_form`, `normal_form` and `logs`
write them as fio does.
"""
