#!/bin/bash
touch /app/draft
