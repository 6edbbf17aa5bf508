#!/bin/bash
echo 'fair wind' > /logs/artifacts/report.txt
