#!/bin/bash
touch /app/off
