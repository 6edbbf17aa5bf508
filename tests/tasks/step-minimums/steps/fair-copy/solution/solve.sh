#!/bin/bash
touch /app/fair-copy
