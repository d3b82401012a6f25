"""What is asked, the plan for it, its execution, its pages and parts."""
