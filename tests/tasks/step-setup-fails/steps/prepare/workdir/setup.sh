#!/bin/bash
echo 'no rope' >&2
exit 3
