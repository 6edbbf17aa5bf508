#!/bin/bash
touch /app/free
